"""Losses that are no usual ones: negative, zero, of rewards or a game, or that are no loss but for their name."""

import numpy as np
import pytest

from tests.analysis.convergence.test_course import analysed, falling, logged, of_convergence
from traintrace_analysis.convergence.names import are_of_a_game

STEPS = 800


def noise(size: float) -> np.ndarray:
    return size * np.random.default_rng(3).normal(size=STEPS)


@pytest.mark.parametrize("level", [0.0, 1.0, -2.0])
def test_a_loss_that_never_changes_has_an_answer(level: float) -> None:
    """Zero at every step divided by the fall that there was none of."""
    analysis = analysed(STEPS, logged(loss=np.full(STEPS, level)))
    assert not of_convergence(analysis)
    assert analysis.convergence is not None
    assert analysis.convergence.loss is not None
    assert analysis.convergence.loss.trend == "flat"


def test_a_negative_loss_that_rises_a_little_is_not_lost() -> None:
    """A cosine of -0.95 that becomes -0.92 was `critical`: nothing had been gained, so all of it was lost."""
    rising = -0.95 + 0.03 * np.linspace(0.0, 1.0, STEPS) + noise(0.002)
    assert not of_convergence(analysed(STEPS, logged(loss=rising)))


def test_a_negative_loss_that_goes_back_to_its_beginning_is_lost() -> None:
    places = np.arange(STEPS)
    course = np.where(places < 500, -5.0 * (1.0 - np.exp(-places / 80.0)), -0.5) + noise(0.05)
    assert "DIVERGED" in of_convergence(analysed(STEPS, logged(loss=course)))


def test_a_spike_of_a_negative_loss_is_as_large_as_one_of_a_positive() -> None:
    course = -5.0 + noise(0.02)
    course[500:503] += 0.2
    assert not of_convergence(analysed(STEPS, logged(loss=course)))
    course[500:503] += 1.0
    assert set(of_convergence(analysed(STEPS, logged(loss=course)))) == {"LOSS_SPIKE"}


def test_an_accuracy_called_a_loss_is_not_lost() -> None:
    places = np.arange(STEPS)
    course = 0.1 + 0.85 * (1.0 - np.exp(-places / 100.0)) + noise(0.01)
    found = of_convergence(analysed(STEPS, logged(loss=course)))
    assert set(found) == {"NO_PROGRESS"}
    assert "if more of it is better" in found["NO_PROGRESS"].action


def test_a_loss_of_rewards_may_rise_and_is_lost_by_nan_alone() -> None:
    """GRPO's loss begins at zero and grows with the divergence from the reference."""
    rising = np.linspace(0.0, 0.02, STEPS) + noise(0.001)
    rewards = {"reward": noise(1.0), "kl": np.abs(noise(0.1))}
    analysis = analysed(STEPS, logged(loss=rising, **rewards))
    assert not of_convergence(analysis)
    assert "it need not fall" in str(analysis.families["convergence"])
    rising[600:] = np.nan
    assert set(of_convergence(analysed(STEPS, logged(loss=rising, **rewards)))) == {"DIVERGED"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("loss", "rewards/accuracy_reward/mean"), True),
        (("train/loss", "train/policy_gradient_loss", "rollout/ep_rew_mean"), True),
        (("loss", "loss_G", "loss_D"), True),
        (("loss", "loss_g"), False),
        (("loss", "rewards/chosen", "rewards/margins"), False),
        (("loss", "recon_loss", "kl_loss"), False),
        (("loss", "grad_norm", "eval_gen_len"), False),
    ],
)
def test_what_is_logged_beside_tells_a_game(names: tuple[str, ...], expected: bool) -> None:
    assert are_of_a_game(names) is expected


def test_a_name_of_ten_thousand_characters_fills_no_report() -> None:
    loss = falling(STEPS)
    loss[500:] = np.nan
    found = of_convergence(analysed(STEPS, logged(**{"x" * 10_000 + "_loss": loss})))
    assert len(found["DIVERGED"].why) < 600
