"""torch.profiler for a few steps: `tracer.profile(steps=(first, last))`, or the option `profile_steps`.

Only one profiler can run in a process. One that the user runs goes first: where it is on when ours would begin, ours
does not; where it begins while ours runs, ours ends without a trace. Profiling draws no random number and changes no
result; on an accelerator torch waits for the device when a profile begins and ends.
"""

import gc
import gzip
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from torch.autograd import profiler as torch_profiler

from traintrace.patching import replace_attribute

STEP_MARK: Final = "traintrace.step"
TAKEN: Final = "another profiler was on when the chosen steps began"
DISPLACED: Final = "another profiler began during the chosen steps, and ours ended for it"
_FASTEST: Final = 1  # of gzip: three times as fast as its default, and files a tenth larger
_COPIED: Final = 1 << 20


class TorchProfiler:
    """Profiles consecutive steps of the calling thread's training with torch.profiler.

    Attributes:
        why_stopped: Why the profile ended without a trace; None while it may give one.
    """

    def __init__(self) -> None:
        self.why_stopped: str | None = None
        self._profile: Any = None
        self._mark: Any = None
        self._undo = ExitStack()

    def start(self, step: int) -> str | None:
        """Begin with `step`; called between steps.

        Returns:
            Why nothing is profiled; None if it is.
        """
        if _is_taken():
            return TAKEN
        profile = torch.profiler.profile()
        try:
            profile.start()
        except RuntimeError as error:
            return f"torch's profiler does not start ({type(error).__name__})"
        self._profile, self.why_stopped = profile, None
        self._watch_for_others()
        self.mark(step)
        return None

    def mark(self, step: int) -> None:
        """Mark in the trace that `step` begins here, and the one before it ends."""
        self._leave_mark()
        if self._profile is not None:
            self._mark = torch_profiler.record_function(f"{STEP_MARK}#{step}")
            self._mark.__enter__()

    def finish(self, path: Path | None) -> None:
        """End the profile here, and write its trace whole or not at all; None as the path writes nothing.

        Raises:
            OSError: It cannot be written.
        """
        profile = self._stop()
        if profile is None or path is None:
            return
        path.parent.mkdir(exist_ok=True)
        plain = path.with_name(f".{path.name}.{os.getpid()}.json")
        packed = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            profile.export_chrome_trace(str(plain))
            if not plain.exists():  # torch logs that it could not write, and raises nothing
                raise OSError("torch could not write it; is the disk full?")
            with open(plain, "rb") as source, gzip.open(packed, "wb", _FASTEST) as target:
                shutil.copyfileobj(source, target, _COPIED)
            os.replace(packed, path)
        finally:
            # Torch writes beside the file that it was given, and leaves that there if it fails.
            for left in (plain, plain.with_name(f"{plain.name}.tmp"), packed):
                left.unlink(missing_ok=True)

    def _stop(self) -> Any:
        profile, self._profile = self._profile, None
        self._leave_mark()
        self._undo.close()
        if profile is not None:
            profile.stop()
        return profile

    def _leave_mark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _watch_for_others(self) -> None:
        """Make way for a profiler that the user begins: torch would refuse it while ours runs."""
        for owner, name in (
            (torch_profiler.profile, "_prepare_trace"),
            (torch_profiler.profile, "_start_trace"),
            (torch_profiler.emit_nvtx, "__enter__"),
            (torch_profiler.emit_itt, "__enter__"),
        ):
            original = getattr(owner, name, None)
            if original is not None:
                self._undo.callback(replace_attribute(owner, name, self._after_ours(original)))

    def _after_ours(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def begin(other: Any) -> Any:
            if self._profile is not None and other is not self._profile.profiler:
                self.why_stopped = DISPLACED
                self._stop()
            return original(other)

        return begin


def _is_taken() -> bool:
    """Say whether a profiler is on, or is about to be: one that warms up by its schedule starts later.

    Nothing but the objects themselves tells the latter. To look at all of them takes some tenths of a second in a
    large program, once, between two steps.
    """
    if torch._C._autograd._profiler_enabled():
        return True
    others = (one for one in gc.get_objects() if issubclass(type(one), torch_profiler.profile))
    return any(one.entered and one.kineto_results is None for one in others)
