"""Signals that stick out together, and meetings that are none."""

import numpy as np
import pytest

from traintrace_analysis.convergence.together import Meeting, find_meetings
from traintrace_analysis.step_window import Floats

STEPS = np.arange(1, 1001)


def quiet(seed: int = 1) -> dict[str, Floats]:
    random = np.random.default_rng(seed)
    return {
        "loss": 2.0 + 0.1 * random.normal(size=1000),
        "grad_norm": np.exp(0.2 * random.normal(size=1000)),
        "step_time": 1e7 * np.exp(0.05 * random.normal(size=1000)),
        "memory": 1e9 + 1e6 * random.normal(size=1000),
    }


def meetings(signals: dict[str, Floats]) -> tuple[Meeting, ...]:
    return find_meetings(STEPS, signals)


def test_signals_that_rise_at_one_step_meet_and_the_bound_is_that_of_chance() -> None:
    signals = quiet()
    signals["loss"][500:503] *= 3.0
    signals["grad_norm"][500:503] *= 40.0
    (found,) = meetings(signals)
    assert found.signals == ("loss", "grad_norm")
    assert found.first_step == 501
    # One mark of each, at most one step apart: 3 places of 1,000.
    assert found.by_chance == pytest.approx(0.003, rel=0.05)


def test_a_third_signal_makes_chance_less_likely() -> None:
    signals = quiet()
    for name, times in (("loss", 3.0), ("grad_norm", 40.0), ("step_time", 5.0)):
        signals[name][500] *= times
    (found,) = meetings(signals)
    assert found.signals == ("loss", "grad_norm", "step_time")
    assert found.by_chance < 1e-4


def test_signals_that_rise_at_different_steps_do_not_meet() -> None:
    signals = quiet()
    signals["loss"][300:303] *= 3.0
    signals["grad_norm"][310:313] *= 40.0
    signals["step_time"][700] *= 5.0
    assert meetings(signals) == ()


def test_a_slow_step_without_loss_or_gradients_is_no_instability() -> None:
    signals = quiet()
    signals["step_time"][500] *= 5.0
    signals["memory"][500] *= 2.0
    assert meetings(signals) == ()


def test_a_signal_that_stalls_all_the_time_meets_by_chance() -> None:
    signals = quiet()
    signals["loss"][500] *= 3.0
    signals["step_time"][::20] *= 5.0  # 500 is one of them
    assert all("step_time" not in one.signals for one in meetings(signals))


def test_a_larger_batch_explains_a_slow_step_and_its_memory() -> None:
    signals = quiet()
    signals["tokens"] = np.full(1000, 4096.0)
    for name, times in (("tokens", 4.0), ("step_time", 4.0), ("memory", 2.0)):
        signals[name][500] *= times
    assert meetings(signals) == ()
    signals["loss"][500] *= 3.0
    (found,) = meetings(signals)
    assert found.signals == ("loss", "tokens")
    assert found.of_batch


def test_steps_that_follow_their_tokens_have_no_marks_of_their_own() -> None:
    random = np.random.default_rng(5)
    signals = quiet()
    signals["tokens"] = np.exp(0.6 * random.normal(size=1000)) * 4096.0
    signals["step_time"] = signals["step_time"] * (0.3 + signals["tokens"] / 4096.0)
    place = int(np.argsort(signals["tokens"])[-3])
    signals["loss"][place] *= 3.0
    assert all("step_time" not in one.signals for one in meetings(signals))


def test_a_short_batch_is_unusual_too() -> None:
    signals = quiet()
    signals["samples"] = np.full(1000, 32.0)
    signals["samples"][500] = 3.0
    signals["loss"][500] *= 3.0
    (found,) = meetings(signals)
    assert found.signals == ("loss", "samples")


def test_what_meets_often_is_one_finding_less_likely_still() -> None:
    signals = quiet()
    for place in (200, 500, 800):
        signals["loss"][place] *= 3.0
        signals["grad_norm"][place] *= 40.0
    found = meetings(signals)
    assert [one.first_step for one in found] == [201, 501, 801]
    assert found[0].by_chance < 0.001


def test_few_steps_say_nothing() -> None:
    signals = {name: values[:63] for name, values in quiet().items()}
    assert find_meetings(STEPS[:63], signals) == ()
