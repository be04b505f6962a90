"""What counts as a public key and as a null."""

from typing import Any

from tests.scenarios.shape import keys_of, nulls_of


def _summary(**metrics: dict[str, Any]) -> dict[str, Any]:
    return {"step_time": {"metrics": metrics}}


def test_names_are_keys_and_ranks_are_not() -> None:
    keys = keys_of(_summary(forward={"mean": 1.0, "by_rank": {"0": 1.0, "7": 2.0}}))
    assert keys == {
        "step_time",
        "step_time.metrics",
        "step_time.metrics.forward",
        "step_time.metrics.*.mean",
        "step_time.metrics.*.by_rank",
        "step_time.metrics.*.by_rank.*",
    }


def test_evidence_belongs_to_its_kind_and_names_no_rank() -> None:
    found = {"kind": "STRAGGLER", "evidence": {"share_rank_3": 0.5, "share_rank_12": 0.1}}
    keys = keys_of({"findings": [found]})
    assert "findings[STRAGGLER].evidence.share_rank_*" in keys
    assert len([key for key in keys if "share_rank" in key]) == 1


def test_a_metric_that_is_null_throughout_is_one_entry() -> None:
    nothing = {"clock": "host", "mean": None, "skew": None, "by_rank": {"0": None}, "n": 0}
    there = {"clock": "host", "mean": 1.0, "skew": 0.0, "by_rank": {"0": 1.0}, "n": 9}
    assert nulls_of(_summary(h2d=nothing, forward=there)) == ["step_time.metrics.h2d"]


def test_a_number_that_all_measured_metrics_lack_is_one_entry() -> None:
    one = {"mean": 1.0, "skew": None, "by_rank": {"0": 1.0, "1": 1.0}}
    other = {"mean": 1.0, "skew": None, "by_rank": {"0": 1.0, "1": None}}
    assert nulls_of(_summary(forward=one, backward=other)) == [
        "step_time.metrics.*.skew",
        "step_time.metrics.backward.by_rank.1",
    ]


def test_a_zero_is_no_null_and_a_row_of_nulls_is_one() -> None:
    summary = {**_summary(), "counts": {"epochs": 0}, "series": {"loss": [None, None], "step": []}}
    assert nulls_of(summary) == ["series.loss[]"]
