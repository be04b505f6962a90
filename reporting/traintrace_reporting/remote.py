"""Runs that lie elsewhere: fetched to this machine before they are read."""

from contextlib import suppress
from pathlib import Path

from traintrace.publishing.layout import SEGMENTS
from traintrace.publishing.location import is_url


def local_run(place: str) -> Path:
    """Give the path of a run or summary; what was published in parts is fetched first.

    Raises:
        RunReadError: There is no run at the URL, or it is damaged.
        OSError: The URL cannot be reached.
    """
    if not is_url(place) and not (Path(place) / SEGMENTS).is_dir():
        return Path(place)
    from traintrace.publishing.fetch import fetch_run

    return fetch_run(place)


def send_back(place: str) -> None:
    """Write the report that was made of a fetched run beside the run itself.

    A place that may only be read keeps none; the report has been seen all the same.
    """
    from traintrace.publishing.fetch import send_report
    from traintrace.publishing.location import location

    with suppress(OSError):
        send_report(location(place))
