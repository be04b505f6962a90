"""Give the terminal back before the report is printed."""

from typing import Any


def close_progress_bar(trainer: Any) -> None:
    """Close a progress bar that is still drawn, as it would do itself a moment later.

    Lightning's Rich bar draws over what others print. It closes when an exception reaches its own
    callback, which comes after ours.
    """
    stop = getattr(trainer.progress_bar_callback, "_stop_progress", None)
    if stop is not None:
        stop()
