"""The operations of real steps are counted exactly: whatever the model, the batch and the loop around it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.labs.counted import (
    mean_square,
    no_graphs,
    random_batches,
    train,
    two_layers,
    two_layers_flops,
)
from traintrace.facts import FLOPS_COUNTED
from traintrace.flopfacts import CountedStep

EIGHT = (4,) * 8

__all__ = ["no_graphs"]


def only(counted: tuple[CountedStep, ...]) -> CountedStep:
    """Give what all counted steps agree on."""
    assert len({step.total for step in counted}) == 1
    return counted[0]


def test_the_operations_of_linear_layers_are_exact(tmp_path: Path) -> None:
    ran = train(tmp_path, two_layers, random_batches(*EIGHT))
    assert [step.step for step in ran.flops.counted] == [3, 8]
    step = only(ran.flops.counted)
    assert step.flops == {"fp32": two_layers_flops(4)}
    assert step.backward_flops == 2 * (4 * 8 * 16) + 2 * 2 * (4 * 16 * 4)
    assert (step.samples, step.micro_batches, step.recomputed_flops) == (4, 1, 0)
    assert ran.flops.uncounted == ()
    assert ran.flops.not_counted == ""


def test_counted_steps_are_flagged_and_no_others(tmp_path: Path) -> None:
    ran = train(tmp_path, two_layers, random_batches(*(4,) * 22))
    assert ran.rank is not None
    flagged = [bool((flags or 0) & FLOPS_COUNTED) for flags in ran.rank.columns["flags"]]
    assert [number for number, is_counted in enumerate(flagged, 1) if is_counted] == [3, 8, 21]


def test_counting_begins_after_the_warm_up_that_was_asked_for(tmp_path: Path) -> None:
    ran = train(tmp_path, two_layers, random_batches(*EIGHT), warmup_steps=4)
    assert [step.step for step in ran.flops.counted] == [7]


def test_a_convolution_is_exact(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    images = [torch.randn(2, 3, 8, 8, generator=generator) for _ in range(4)]
    ran = train(tmp_path, lambda: nn.Conv2d(3, 5, 3, padding=1), images)
    once = 2 * 2 * 5 * 3 * 3 * 3 * 8 * 8  # output 8 x 8: padding keeps it
    assert only(ran.flops.counted).total == 2 * once


class Attention(nn.Module):
    """Projections and fused attention over 2 heads of width 4."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.inward(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts)
        output: torch.Tensor = self.outward(mixed.transpose(1, 2).reshape(x.shape))
        return output


def test_fused_attention_on_the_processor_is_no_zero(tmp_path: Path) -> None:
    texts = [torch.randn(3, 5, 8) for _ in range(4)]
    step = only(train(tmp_path, Attention, texts).flops.counted)
    inward, outward, product = 2 * 15 * 8 * 24, 2 * 15 * 8 * 8, 2 * 3 * 2 * 5 * 5 * 4
    # Two products in forward; backward makes the scores again and has four of its own.
    assert step.total == 2 * inward + 3 * outward + (2 + 5) * product


def test_a_recurrent_layer_is_counted(tmp_path: Path) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(8, 6, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.cells(x)[0]
            return output

    ran = train(tmp_path, Recurrent, [torch.randn(3, 5, 8) for _ in range(4)])
    assert only(ran.flops.counted).total == 3 * 2 * 15 * (24 * 8 + 24 * 6)
    assert ran.flops.uncounted == ()


@pytest.mark.parametrize("accumulate", [1, 4])
def test_all_micro_batches_of_a_step_count(tmp_path: Path, accumulate: int) -> None:
    batches = random_batches(*(4,) * (4 * accumulate))
    step = only(train(tmp_path, two_layers, batches, accumulate=accumulate).flops.counted)
    assert step.total == accumulate * two_layers_flops(4)
    assert (step.samples, step.micro_batches) == (4 * accumulate, accumulate)


def test_each_counted_step_has_the_size_of_its_own_batch(tmp_path: Path) -> None:
    sizes = (1, 16, 16, 3, 16, 16, 16, 5)
    ran = train(tmp_path, two_layers, random_batches(*sizes))
    assert [(one.step, one.samples) for one in ran.flops.counted] == [(3, 16), (8, 5)]
    assert [one.total for one in ran.flops.counted] == [two_layers_flops(16), two_layers_flops(5)]


def test_a_model_that_is_called_by_keyword_is_counted_and_stays_in_training(tmp_path: Path) -> None:
    class ByKeyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = two_layers()

        def forward(self, *, features: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.layers(features)
            return output

    modes: list[bool] = []
    step = only(
        train(
            tmp_path,
            ByKeyword,
            random_batches(*EIGHT),
            loss=lambda model, batch: model(features=batch).mean(),
            between=lambda model: modes.append(model.training),
        ).flops.counted
    )
    assert step.total == two_layers_flops(4)
    assert modes == [True] * 8


def evaluate(model: nn.Module) -> None:
    """Evaluate on more than a training batch, without gradients."""
    model.eval()
    with torch.no_grad():
        for batch in random_batches(64, 64):
            model(batch)
    model.train()


def evaluate_carelessly(model: nn.Module) -> None:
    """Evaluate as `evaluate` does, with gradients on."""
    for batch in random_batches(64, 64):
        model(batch)


@pytest.mark.parametrize("between", [evaluate, evaluate_carelessly])
def test_an_evaluation_between_steps_counts_for_none(tmp_path: Path, between: Any) -> None:
    ran = train(tmp_path, two_layers, random_batches(*EIGHT), between=between)
    assert only(ran.flops.counted).total == two_layers_flops(4)


class Recomputed(nn.Module):
    """Two layers of which nothing is kept for backward."""

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.layers, self.use_reentrant = two_layers(), use_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_(self.use_reentrant)
        output: torch.Tensor = checkpoint(self.layers, x, use_reentrant=self.use_reentrant)
        return output


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_is_computed_again_is_told_apart(tmp_path: Path, use_reentrant: bool) -> None:
    batches = random_batches(*EIGHT)
    step = only(train(tmp_path, lambda: Recomputed(use_reentrant), batches).flops.counted)
    forward = 2 * 4 * 8 * 16 + 2 * 4 * 16 * 4
    gradient_of_input = 2 * 4 * 8 * 16 if use_reentrant else 0
    assert step.total == two_layers_flops(4) + gradient_of_input
    # Torch need not make again what no gradient is made from: the last layer's own output.
    assert forward - 2 * 4 * 16 * 4 <= step.recomputed_flops <= forward


def test_a_backward_that_is_differentiated_itself_is_backward(tmp_path: Path) -> None:
    def penalty(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        inputs = batch.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(inputs).square().sum(), inputs, create_graph=True)
        return slope.square().mean()

    step = only(train(tmp_path, two_layers, random_batches(*EIGHT), loss=penalty).flops.counted)
    assert step.recomputed_flops == 0
    assert step.total > two_layers_flops(4)


def test_a_step_that_raised_is_counted_when_it_is_made_again(tmp_path: Path) -> None:
    failed: list[int] = []

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        value = mean_square(model, batch)
        if len(batch) == 9 and not failed:
            failed.append(1)
            with pytest.raises(RuntimeError):
                model(batch[:, :3])  # of a wrong shape
        return value

    ran = train(tmp_path, two_layers, random_batches(4, 4, 9, 4), loss=loss)
    assert [one.total for one in ran.flops.counted] == [two_layers_flops(9)]


def test_number_formats_are_those_that_were_computed_in(tmp_path: Path) -> None:
    class Mixed(nn.Module):
        """Its first layer is in float32 and its second in bfloat16."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4).bfloat16()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.second(self.first(x).relu().bfloat16())
            return output

    step = only(train(tmp_path, Mixed, random_batches(*EIGHT)).flops.counted)
    second = 3 * 2 * 4 * 16 * 4
    assert step.flops == {"fp32": two_layers_flops(4) - second, "bf16": second}
    double = train(
        tmp_path, lambda: two_layers().double(), [b.double() for b in random_batches(*EIGHT)]
    )
    assert only(double.flops.counted).flops == {"fp64": two_layers_flops(4)}


def test_what_nobody_has_a_formula_for_is_named(tmp_path: Path) -> None:
    class Distances(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.places = two_layers(), nn.Parameter(torch.randn(3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cdist(
                self.layers(x), self.places, compute_mode="donot_use_mm_for_euclid_dist"
            )

    flops = train(tmp_path, Distances, random_batches(*EIGHT)).flops
    assert any("cdist" in name for name in flops.uncounted)
    assert only(flops.counted).total >= two_layers_flops(4)
