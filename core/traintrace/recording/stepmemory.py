"""Step memory behind a guard: an allocator that fails once is not asked again, and training goes on."""

from collections.abc import MutableMapping

from traintrace.faults import FaultReporter
from traintrace.ports import MemoryReader
from traintrace.recording.steps import StepCapture


class StepMemory:
    """Reads the memory peaks of steps until the reader fails."""

    def __init__(
        self, reader: MemoryReader, faults: FaultReporter, unmeasured: MutableMapping[str, str]
    ) -> None:
        self._reader: MemoryReader | None = reader
        self._faults = faults
        self._unmeasured = unmeasured

    @property
    def lifetime_peak_bytes(self) -> int | None:
        """Give the largest peak of the process; None once the reader has failed."""
        return None if self._reader is None else self._reader.lifetime_peak_bytes

    def open_step(self) -> None:
        """A step begins: reset the peaks."""
        if self._reader is not None:
            try:
                self._reader.open_step()
            except Exception as error:  # noqa: BLE001 - an allocator without statistics
                self._give_up(error)

    def read(self, capture: StepCapture) -> None:
        """Fill in the peaks at the step's close."""
        if self._reader is not None:
            try:
                self._reader.read(capture)
            except Exception as error:  # noqa: BLE001 - an allocator without statistics
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._reader = None
        self._unmeasured["peak_memory"] = f"the allocator does not tell ({error})"
        self._faults.fault(error, "the memory peaks of the device")
