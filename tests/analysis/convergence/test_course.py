"""What is said about one logged value: lost, blown up, worse, level, spiky; and what is not said."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.labs.runs import make_rank, make_run
from traintrace.facts import Scalar
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding
from traintrace_reporting.lenses.convergence import section

NAN, INF = math.nan, math.inf


def logged(**values: Sequence[float] | np.ndarray) -> list[Scalar]:
    return [
        Scalar(step, name, float(value))
        for name, series in values.items()
        for step, value in enumerate(series, 1)
    ]


def analysed(steps: int, scalars: Sequence[Scalar], **of_rank: object) -> Analysis:
    return analyse(make_run(make_rank(steps, scalars=scalars, **of_rank)))  # type: ignore[arg-type]


def of_convergence(analysis: Analysis) -> dict[str, Finding]:
    return {one.kind: one for one in analysis.findings if one.family == "convergence"}


def falling(steps: int = 400, noise: float = 0.03, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    course = 0.4 + 2.0 * np.exp(-np.arange(steps) / (steps / 2.0))
    return course * np.exp(noise * random.normal(size=steps))


def test_a_loss_that_is_nan_to_the_end_is_lost_from_its_first_step() -> None:
    loss = falling()
    loss[250:] = NAN
    analysis = analysed(400, logged(loss=loss))
    found = of_convergence(analysis)["DIVERGED"]
    assert found.severity == "critical"
    assert found.evidence["step"] == 251
    rows = analysis.window
    after = float(rows.close_ns[0, -1] - rows.close_ns[0, 250]) / 1e9
    assert found.cost_s == pytest.approx(after)
    assert analysis.verdict.kind == "DIVERGED"


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_values_that_are_not_finite_are_no_spikes_and_break_nothing(value: float) -> None:
    loss, norm = falling(), np.exp(0.2 * np.random.default_rng(2).normal(size=400))
    loss[300:] = value
    norm[300:] = value
    analysis = analysed(400, logged(loss=loss, grad_norm=norm))
    assert set(of_convergence(analysis)) == {"DIVERGED"}
    json.dumps(section(analysis), allow_nan=False)


def test_nan_that_comes_back_is_counted_and_is_no_divergence() -> None:
    loss = falling()
    loss[[40, 41, 200]] = NAN
    analysis = analysed(400, logged(loss=loss))
    assert of_convergence(analysis) == {}
    assert analysis.convergence is not None
    assert analysis.convergence.loss is not None
    assert analysis.convergence.loss.not_finite == 3


def test_one_value_at_the_very_end_is_a_warning_and_no_verdict() -> None:
    loss = falling()
    loss[-1] = NAN
    analysis = analysed(400, logged(loss=loss))
    assert of_convergence(analysis)["DIVERGED"].severity == "warning"
    assert analysis.verdict.kind != "DIVERGED"


def test_a_scaler_that_skips_steps_is_no_divergence() -> None:
    norm = np.exp(0.2 * np.random.default_rng(2).normal(size=400))
    norm[:6] = INF
    norm[390:395] = INF
    norm[396:] = INF  # four to the end: not yet
    assert of_convergence(analysed(400, logged(loss=falling(), grad_norm=norm))) == {}


def test_a_loss_that_a_framework_filters_is_lost_by_its_gradient_norm() -> None:
    loss, norm = falling(), np.ones(400)
    loss[300:], norm[300:] = 0.0, NAN
    found = of_convergence(analysed(400, logged(loss=loss, grad_norm=norm)))
    assert found["DIVERGED"].evidence["step"] == 301


def test_a_finite_blow_up_is_divergence() -> None:
    loss = 2.0 * 1.05 ** np.arange(1400)
    found = of_convergence(analysed(1400, logged(loss=loss)))["DIVERGED"]
    assert found.severity == "critical"
    assert float(found.evidence["last"] or 0.0) > 1e25
    assert int(found.evidence["step"] or 0) < 100


@pytest.mark.parametrize("name", ["accuracy", "reward", "val_loss", "actor_loss", "tokens_seen"])
def test_what_is_no_training_loss_may_rise(name: str) -> None:
    rising = np.linspace(0.1, 5.0, 400)
    scalars = [Scalar(step, name, float(value)) for step, value in enumerate(rising, 1)]
    analysis = analysed(400, scalars)
    assert of_convergence(analysis) == {}
    assert analysis.families["convergence"].state == "not_measured"
    assert analysis.convergence is not None
    assert analysis.convergence.others[0].last == pytest.approx(5.0, rel=0.02)


def test_without_a_logged_value_the_family_says_how_to_get_one() -> None:
    family = analysed(100, []).families["convergence"]
    assert family.state == "not_measured"
    assert "traintrace.log(loss=loss)" in family.reason


def test_a_spike_is_named_with_its_step_and_no_verdict() -> None:
    loss = falling()
    loss[199:204] *= [3.0, 2.6, 2.2, 1.8, 1.5]
    analysis = analysed(400, logged(loss=loss))
    found = of_convergence(analysis)
    assert set(found) == {"LOSS_SPIKE"}
    assert found["LOSS_SPIKE"].evidence["highest_step"] == 200
    assert found["LOSS_SPIKE"].cost_s == 0.0
    assert analysis.verdict.kind == "COMPUTE_BOUND"


def test_a_step_down_of_the_loss_is_no_spike() -> None:
    loss = falling()
    loss[200:] *= 0.3  # the learning rate was lowered
    assert of_convergence(analysed(400, logged(loss=loss))) == {}


def remembering(memory: float, seed: int = 3, steps: int = 1_000) -> np.ndarray:
    """Give a level with noise of a tenth that remembers itself."""
    pushes = np.random.default_rng(seed).normal(size=steps) * 0.1 * np.sqrt(1.0 - memory**2)
    noise = [0.0]
    for push in pushes[1:]:
        noise.append(memory * noise[-1] + push)
    return np.exp(np.asarray(noise))


@pytest.mark.parametrize("memory", [0.5, 0.9])
def test_a_single_value_is_a_spike_in_noise_that_remembers_itself_too(memory: float) -> None:
    loss = remembering(memory)
    assert of_convergence(analysed(1_000, logged(loss=loss))) == {}
    loss[499] *= 4.0
    found = of_convergence(analysed(1_000, logged(loss=loss)))
    assert found["LOSS_SPIKE"].evidence["highest_step"] == 500


def test_a_slow_spike_in_noise_that_remembers_itself_is_known_by_its_first_push() -> None:
    loss = remembering(0.9)
    loss[499:] *= 1.0 + 1.2 * np.exp(-np.arange(501) / 30.0)
    found = of_convergence(analysed(1_000, logged(loss=loss)))
    assert found["LOSS_SPIKE"].evidence["first_spike_step"] == 500


def test_a_new_level_in_noise_that_remembers_itself_is_no_spike() -> None:
    loss = remembering(0.9)
    loss[499:] *= 2.2
    assert "LOSS_SPIKE" not in of_convergence(analysed(1_000, logged(loss=loss)))


def test_gradients_that_stay_thirty_times_as_large_have_exploded() -> None:
    norm = np.exp(0.3 * np.random.default_rng(3).normal(size=400))
    norm[320:] *= 30.0
    found = of_convergence(analysed(400, logged(loss=falling(), grad_norm=norm)))
    assert set(found) == {"GRAD_NORM_EXPLOSION"}


def test_a_loss_that_stopped_falling_is_an_observation_where_it_lasted_a_minute() -> None:
    loss = np.exp(0.02 * np.random.default_rng(4).normal(size=2000))
    loss[:400] *= np.linspace(5.0, 1.0, 400)
    slow = {"forward": 30.0, "backward": 20.0, "optimizer": 2.0, "input_wait": 0.5}
    found = of_convergence(analysed(2000, logged(loss=loss), ms=slow))
    assert found["NO_PROGRESS"].severity == "info"
    assert of_convergence(analysed(2000, logged(loss=loss))) == {}  # 22 s in all


def test_steps_that_were_abandoned_do_not_count() -> None:
    loss = falling(200)
    first = [Scalar(step, "loss", NAN) for step in range(1, 101)]
    scalars = first + [Scalar(100 + step, "loss", float(v)) for step, v in enumerate(loss, 1)]
    rank = make_rank(300, scalars=scalars)
    rank = replace(rank, totals=replace(rank.totals, steps=200, steps_abandoned=100))
    analysis = analyse(make_run(rank))
    assert analysis.convergence is not None
    assert analysis.convergence.loss is not None
    assert analysis.convergence.loss.not_finite == 0


def test_of_several_values_at_a_step_the_last_stays_and_order_does_not_matter() -> None:
    loss = falling(100)
    scalars = [Scalar(k, "loss", 1e9) for k in range(1, 101)]
    scalars += [Scalar(k, "loss", float(v)) for k, v in enumerate(loss, 1)][::-1]
    analysis = analysed(100, scalars)
    assert analysis.convergence is not None
    assert analysis.convergence.loss is not None
    assert analysis.convergence.loss.count == 100
    assert (analysis.convergence.loss.highest or 0.0) < 10.0


def test_a_rank_that_logged_nothing_gives_way_to_one_that_did() -> None:
    quiet, talking = (
        make_rank(200, rank=0),
        make_rank(200, rank=1, scalars=logged(loss=falling(200))),
    )
    analysis = analyse(make_run(quiet, talking))
    assert analysis.convergence is not None
    assert analysis.convergence.rank == 1


@pytest.mark.parametrize("count", [1, 2, 5, 29, 30, 63, 64, 65, 127, 129])
def test_runs_of_any_length_have_an_answer(count: int) -> None:
    for values in (np.ones(count), np.zeros(count), -falling(count), np.full(count, NAN)):
        analysis = analysed(130, logged(loss=values, grad_norm=values))
        json.dumps(section(analysis), allow_nan=False)


def test_huge_and_tiny_values_have_an_answer() -> None:
    values = [1e308, 1e-308, 1e308, -1e308, 5e-324, 1.7e308] * 40
    json.dumps(
        section(analysed(240, logged(loss=values, grad_norm=np.abs(values)))), allow_nan=False
    )
