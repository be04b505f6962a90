"""A published run as one of its ranks sees it: what is sent when, and what of the others can be had."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from traintrace.errors import RunReadError
from traintrace.faults import FaultReporter
from traintrace.publishing.fetch import fetch_run, forget_fetched, send_report
from traintrace.publishing.layout import has_published, stem_of
from traintrace.publishing.location import location
from traintrace.publishing.patience import ANSWER_S, within
from traintrace.publishing.publisher import Publisher
from traintrace.publishing.spool import clear_spool
from traintrace.publishing.waiting import silent_ranks
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import MANIFEST_NAME, Manifest
from traintrace.store.writer import RankWriter

# The end of a run waits so long at most for what the other ranks published.
FETCH_S: Final = 60.0


def is_published_already(place: str, rank_file: Path) -> bool:
    """Say whether a rank has published anything at `place`; False also if that does not answer now.

    The publisher looks once more, when it has time.
    """
    where = location(place)
    try:
        return within(ANSWER_S, place, lambda: has_published(where, stem_of(rank_file)))
    except OSError:
        return False


class PublishedRun:
    """Sends one rank's rows to the place of its run.

    Args:
        place: URL or path of the place.
        spool: Folder of this machine in which the rank records.
        writer: What writes the rank's file.
        identity: Who this process is.
        faults: Told, once, what cannot be sent.
        interval_s: Seconds between two transfers.

    Attributes:
        place: URL or path of the place.
        publisher: The thread that sends.
    """

    def __init__(
        self,
        place: str,
        spool: Path,
        writer: RankWriter,
        identity: Identity,
        faults: FaultReporter,
        interval_s: float,
    ) -> None:
        self.place = place
        self._where = location(place)
        self._spool = spool
        self._rank_file = writer.path
        self._faults = faults
        self.publisher = Publisher(
            self._where, writer.path, lambda: writer.location, faults, interval_s, identity.rank
        )
        self._arrived: bool | None = None  # until the end

    @property
    def has_arrived(self) -> bool:
        """Whether this rank has ended and all it recorded lies at the place."""
        return self._arrived is True

    def put_manifest(self, manifest: Manifest) -> None:
        """Send the manifest: soon, or at once when this rank has ended.

        Raises:
            OSError: This rank has ended, and the place cannot be written.
        """
        if self._arrived is not False:  # else the place does not answer, as was said
            self.publisher.put(MANIFEST_NAME, manifest.to_text().encode())

    def close(self) -> None:
        """Send what has not been sent, for some seconds; the spool goes once all has arrived."""
        self._arrived = self.publisher.close()
        if self._arrived:
            clear_spool(self._spool, self._rank_file)

    def wait_for_ranks(self, identity: Identity, deadline_s: float) -> Sequence[int]:
        """Wait until the other ranks have published all, for some seconds; give those that have not."""
        return silent_ranks(self._where, identity, deadline_s if self.has_arrived else 0.0)

    def fetch(self) -> Path | None:
        """Give a folder with what all ranks published; None if it cannot be had, which is said."""
        if not self.has_arrived:
            return None  # it has been said already that the place does not answer
        try:
            return within(FETCH_S, self.place, lambda: fetch_run(self.place))
        except (OSError, RunReadError) as error:
            self._faults.warn(
                f"what the ranks published cannot be read ({error}); `traintrace report {self._where}` makes the "
                "report later"
            )
            return None

    def send_report(self) -> None:
        """Send the report that was made of what was fetched, and remove that."""
        if not self.has_arrived:
            return
        try:
            send_report(self._where)
        except OSError as error:
            self._faults.warn(
                f"the report could not be written to {self._where} ({error}); `traintrace report {self._where}` "
                "makes it again"
            )
        forget_fetched(self._where)
