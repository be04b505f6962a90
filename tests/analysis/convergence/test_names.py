"""Which logged names are judged, and as what."""

import pytest

from traintrace_analysis.convergence.names import gradient_norm, role_of, training_loss


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("loss", "loss"),
        ("train/loss", "loss"),
        ("Train Loss", "loss"),
        ("train_loss_step", "loss"),
        ("lm_loss", "loss"),
        ("trainloss", "loss"),
        ("nll", "loss"),
        ("train/ppl", "loss"),
        ("loss_scale", "other"),
        ("loss_weight", "other"),
        ("loss/lambda", "other"),
        ("accuracy", "other"),
        ("lossless_ratio", "other"),
        ("val_loss", "evaluation_loss"),
        ("eval_loss", "evaluation_loss"),
        ("policy_loss", "contested_loss"),
        ("g_loss", "contested_loss"),
        ("grad_norm", "grad_norm"),
        ("grad_2.0_norm_total", "grad_norm"),
        ("gradient/norm", "grad_norm"),
        ("weight_norm", "other"),
        ("learning_rate", "other"),
    ],
)
def test_a_name_says_what_a_value_is(name: str, role: str) -> None:
    assert role_of(name) == role


def test_the_usual_name_stands_for_training() -> None:
    assert training_loss(["train_loss", "aux_loss", "loss", "val_loss"]) == "loss"
    assert training_loss(["train_loss_step", "train_loss_epoch"]) == "train_loss_step"
    assert training_loss(["head_b_loss", "ce_loss", "accuracy"]) == "ce_loss"
    assert training_loss(["val_loss", "policy_loss", "accuracy"]) is None


def test_norms_of_single_layers_are_no_norm_of_the_gradients() -> None:
    assert gradient_norm(["grad_2.0_norm/layer1", "grad_2.0_norm/layer2"]) is None
    assert gradient_norm(["grad_2.0_norm/a", "grad_2.0_norm_total"]) == "grad_2.0_norm_total"
    assert gradient_norm(["my_grad_norm"]) == "my_grad_norm"
