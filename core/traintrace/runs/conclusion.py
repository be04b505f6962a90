"""How a rank concludes its run: its word in the manifest, what it still publishes, the other ranks, the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.recording.ending import EndStatus, random_state_kept
from traintrace.runs.folder import Run, rank_file
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import TelemetryStatus
from traintrace.runs.started import StartedRun
from traintrace.store.writer import RankWriter

# After a failure the launcher ends the other ranks, and learns of it only when this process has ended.
WAIT_AFTER_FAILURE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What one rank does for its run once its own file is complete.

    Attributes:
        run: The run. writer: what wrote this rank's file.
        on_finish: Makes the report; gets the run, and whether to print it. None makes none.
    """

    run: StartedRun
    writer: RankWriter
    identity: Identity
    options: TraceOptions
    faults: FaultReporter
    on_finish: Callable[[Run, bool], object] | None

    def conclude(self, status: EndStatus, dropped_rows: int, launched: bool) -> None:
        """Write and publish how the run ended, and let rank 0 make the report once all ranks ended.

        Args:
            status: How training ended.
            dropped_rows: How many steps of this rank have no row.
            launched: A launcher of ours started the ranks. It sees when they have ended, and does the rest.
        """
        reports = self.identity.rank == 0 and not launched
        alone = reports and self.identity.world_size == 1
        with self.faults.guard("the run's status in its manifest"):
            telemetry = self._telemetry(dropped_rows) if alone else "unknown"
            self.run.finish(status, self.identity, telemetry)
        with self.faults.guard("what this rank has not published yet"):
            self.run.close_publisher()
        if not reports:
            return
        if not alone:
            late = self._wait_for_ranks(status)
            with self.faults.guard("how much of the record is there, in the manifest"):
                self.run.judge_telemetry(self._telemetry(dropped_rows, late), self.identity)
        if self.on_finish is not None:
            lost = "the report; `traintrace report` can make it from the run folder"
            with self.faults.guard(lost), random_state_kept():
                self.on_finish(self.read(), self.options.print_report)
                self.run.publish_summary()

    def read(self) -> Run:
        """Give the run for reading, as of the last flush."""
        run = self.run.read()
        if run.place is not None:  # the writer's file has been sent, and is gone
            return run
        own = str(rank_file(self.run.folder, self.identity.rank, self.identity.attempt))
        locations = [place for place in run.locations if place != own]
        return replace(run, locations=sorted([*locations, self.writer.location]))

    def _telemetry(self, dropped_rows: int, late: Sequence[int] = ()) -> TelemetryStatus:
        """Say how much of the run's record is there, as far as rank 0 knows."""
        lost = late or self.writer.fault is not None or dropped_rows
        return "partial" if lost else "complete"

    def _wait_for_ranks(self, status: EndStatus) -> Sequence[int]:
        late: Sequence[int] = range(1, self.identity.world_size)
        wait_s = self.options.wait_for_ranks_s
        if status == "failed":
            wait_s = min(wait_s, WAIT_AFTER_FAILURE_S)
        with self.faults.guard("waiting for the other ranks"):
            late = self.run.wait_for_ranks(self.identity, wait_s)
            if late:
                ranks = ", ".join(map(str, late))
                self.faults.warn(
                    f"the report was made before rank {ranks} had finished; "
                    "`traintrace report` makes it again from the run folder"
                )
        return late
