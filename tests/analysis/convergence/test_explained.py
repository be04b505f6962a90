"""What the amount of data explains of the step time, and what its padding costs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.runs import make_rank, make_run
from traintrace.facts import RankFacts
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.convergence.explained import explain
from traintrace_analysis.findings import Finding

RANDOM = np.random.default_rng(3)


def rank_with(
    padded: np.ndarray, tokens: np.ndarray | None, fixed_ms: float, rank: int = 0
) -> RankFacts:
    """Make a rank whose steps take a fixed time and 10 us a padded token."""
    made = make_rank(
        len(padded),
        ms={
            "input_wait": 0.2,
            "forward": [fixed_ms + 0.003 * float(p) for p in padded],
            "backward": [0.007 * float(p) for p in padded],
            "optimizer": 0.5,
        },
        jitter=0.02,
        rank=rank,
    )
    columns = {**made.columns, "padded_tokens": [int(p) for p in padded]}
    if tokens is not None:
        columns["tokens"] = [int(t) for t in tokens]
    return replace(made, columns=columns)


def found(analysis: Analysis) -> Finding | None:
    return next((one for one in analysis.findings if one.kind == "LENGTH_VARIANCE"), None)


def lengths(steps: int = 300) -> np.ndarray:
    return np.ceil(2000.0 * np.exp(0.4 * RANDOM.normal(size=steps)))


def test_step_times_that_follow_tokens_are_explained_and_cost_nothing() -> None:
    padded = lengths()
    one = found(analyse(make_run(rank_with(padded, padded, 2.0))))
    assert one is not None
    assert (one.severity, one.cost_s, one.gain) == ("info", 0.0, None)
    assert float(one.evidence["explained_share"] or 0.0) > 0.95
    assert one.evidence["us_per_unit"] == pytest.approx(10.0, rel=0.05)


def test_padding_costs_its_part_of_the_steps_and_the_gain_says_so() -> None:
    padded = lengths()
    tokens = np.floor(0.6 * padded)
    analysis = analyse(make_run(rank_with(padded, tokens, 2.0)))
    one = found(analysis)
    assert one is not None
    assert one.severity == "warning"
    truth_s = float((padded - tokens).sum()) * 1e-5
    assert one.cost_s == pytest.approx(truth_s, rel=0.1)
    assert one.gain is not None
    assert one.gain.low == 1.0
    whole = float(np.sum(analysis.window.host["step_time"])) / 1e9
    assert one.gain.speedup == pytest.approx(whole / (whole - truth_s), rel=0.05)


def test_padding_that_costs_little_is_no_warning() -> None:
    padded = lengths()
    one = found(analyse(make_run(rank_with(padded, np.floor(0.95 * padded), 2.0))))
    assert one is not None
    assert one.severity == "info"


def test_unrelated_step_times_are_not_explained() -> None:
    made = rank_with(np.full(300, 2000.0), None, 2.0)
    made = replace(made, columns={**made.columns, "padded_tokens": [int(p) for p in lengths()]})
    assert found(analyse(make_run(made))) is None


def test_batches_of_one_size_explain_nothing() -> None:
    analysis = analyse(make_run(make_rank(300)))
    assert found(analysis) is None
    assert analysis.convergence is None


def test_ranks_that_wait_for_the_longest_are_left_to_their_own_finding() -> None:
    own = [lengths(200) for _ in range(4)]
    longest = np.max(own, axis=0)
    ranks = []
    for number, padded in enumerate(own):
        made = rank_with(padded, padded, 2.0, rank=number)
        wait = [max(0.0, float(long - p) * 0.01) for long, p in zip(longest, padded, strict=True)]
        columns = dict(made.columns)
        columns["gradient_sync_ns"] = [round(one * 1e6) for one in wait]
        columns["duration_ns"] = [
            int(d or 0) + round(w * 1e6) for d, w in zip(columns["duration_ns"], wait, strict=True)
        ]
        ends = np.cumsum(np.array(columns["duration_ns"]))
        begin = int(columns["start_ns"][0] or 0)
        startup = int(columns["open_ns"][0] or 0) - begin
        columns["start_ns"] = [begin, *(begin + int(end) for end in ends[:-1])]
        columns["open_ns"] = [begin + startup, *(begin + int(end) for end in ends[:-1])]
        ranks.append(replace(made, columns=columns))
    analysis = analyse(make_run(*ranks))
    one = found(analysis)
    assert any(finding.kind == "LOAD_IMBALANCE" for finding in analysis.findings)
    assert one is not None
    assert one.cost_s == 0.0
    assert "LOAD_IMBALANCE names those seconds" in one.why


def test_the_interval_holds_the_truth_for_steps_that_remember_each_other() -> None:
    held = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        noise, amount = np.zeros(400), np.zeros(400)
        for place in range(1, 400):
            noise[place] = 0.8 * noise[place - 1] + 0.6 * random.normal()
            amount[place] = 0.8 * amount[place - 1] + 0.6 * random.normal()
        step = 1e8 + 1e6 * (amount + noise)  # half of the variance
        got = explain(step, {"tokens": 1000.0 + 10.0 * amount})
        assert got is not None
        held += got.low <= 0.5 <= got.high
    assert held >= 35
