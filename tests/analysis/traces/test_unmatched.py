"""What findings say where not all collectives, or not all ranks, are in the traces."""

from pathlib import Path

from tests.analysis.traces.test_findings import accelerated, exposed, found
from tests.labs.kineto import write_all
from traintrace_analysis import analyse


def test_calls_that_were_not_matched_may_be_waiting_too_and_the_finding_says_so(
    tmp_path: Path,
) -> None:
    files = [exposed(rank, 0.25) for rank in range(2)]
    files[1].kernel(9_990, 9_995, "ncclDevKernel_AllGather_RING_LL", stream=20)
    (one,) = found(analyse(accelerated(), traces=write_all(tmp_path, files)))
    assert "4.8 % of the calls were not found on all their ranks" in one.why
    (whole,) = found(
        analyse(
            accelerated(), traces=write_all(tmp_path, [exposed(rank, 0.25) for rank in range(2)])
        )
    )
    assert "were not found" not in whole.why


def test_traces_of_some_ranks_cannot_tell_late_ranks(tmp_path: Path) -> None:
    """Two traces of a job of four: one of the others may have come last."""
    files = [exposed(rank, 0.25, late_us=100.0) for rank in range(2)]
    for file in files:
        file.head["distributedInfo"]["world_size"] = 4
    (one,) = found(analyse(accelerated(4), traces=write_all(tmp_path, files)))
    assert one.evidence["late_rank_share"] is None
    assert "give the traces of all ranks" in one.why
