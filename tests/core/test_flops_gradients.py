"""Gradients that autograd computes another way while a dispatch mode is entered: such steps are not counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint

from tests.core.test_flops_unchanged import STEPS, vectors
from tests.labs.counted import mean_square, no_graphs, train, two_layers

__all__ = ["no_graphs"]


class Multiplied(nn.Module):
    """The gradient of a product along a dimension is computed another way under a dispatch mode."""

    def __init__(self, checkpointed: bool = False, reentrant: bool = False, width: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 64), nn.Linear(64, width)
        self.is_checkpointed, self.is_reentrant = checkpointed, reentrant

    def multiply(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x).view(-1, 32, 2).prod(2).repeat(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_checkpointed:
            x = x if x.requires_grad else x.clone().requires_grad_()
            again: Any = checkpoint(self.multiply, x, use_reentrant=self.is_reentrant)
        else:
            again = self.multiply(x)
        output: torch.Tensor = self.second(again)
        return output


class Filled(nn.Module):
    """Places are filled with a value that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.value = nn.Linear(8, 4096), nn.Parameter(torch.tensor(0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        return hidden.masked_fill(hidden > 0.1, self.value)


@pytest.mark.parametrize(
    "make",
    [
        Multiplied,
        Filled,
        lambda: Multiplied(True, reentrant=False),
        lambda: Multiplied(True, reentrant=True),
        lambda: nn.Sequential(
            *(nn.Sequential(nn.Linear(8, 8), Multiplied(True, True, width=8)) for _ in range(6))
        ),
    ],
)
def test_a_gradient_that_a_dispatch_mode_computes_otherwise_is_left_alone(
    tmp_path: Path, make: Callable[[], nn.Module]
) -> None:
    ran, plain = (train(folder, make, vectors()) for folder in (tmp_path, None))
    assert ran.same_as(plain)
    assert ran.flops.counted == ()
    assert "would change the last bits of the gradient of" in ran.flops.not_counted
    assert _get_current_dispatch_mode() is None


def test_what_autograd_puts_on_again_is_taken_off_again(tmp_path: Path) -> None:
    """Each node of a backward begins with the modes of its first moment: so does the next checkpoint."""
    modes = []

    class Hooked(Multiplied):
        def multiply(self, x: torch.Tensor) -> torch.Tensor:
            product = super().multiply(x)
            if product.requires_grad:
                product.register_hook(  # type: ignore[no-untyped-call]
                    lambda slope: modes.append(_get_current_dispatch_mode())
                )
            return product

    def two() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 8), Hooked(True, True, 8), Hooked(True, True, 8))

    train(tmp_path, two, vectors())
    assert len(modes) == 2 * STEPS
    assert set(modes) == {None}


@pytest.mark.parametrize("call", ["backward", "grad", "grad_by_name"])
def test_a_product_in_the_loss_is_seen_before_its_backward(tmp_path: Path, call: str) -> None:
    """Behind the model nothing is watched before the backward begins: what it goes through is looked at then."""

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = model(batch).view(-1, 2).prod(1).sum()
        if call == "backward":
            return value
        wanted = list(model.parameters())
        if call == "grad":
            slopes = torch.autograd.grad(value, wanted)
        else:
            slopes = torch.autograd.grad(outputs=(value,), inputs=wanted)
        return mean_square(model, batch) + sum(slope.sum() for slope in slopes)

    ran, plain = (train(folder, two_layers, vectors(), loss=loss) for folder in (tmp_path, None))
    assert ran.same_as(plain)
    assert ran.flops.counted == ()
    assert "gradient of torch.prod" in ran.flops.not_counted


def test_a_product_that_needs_no_gradient_is_no_reason(tmp_path: Path) -> None:
    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return mean_square(model, batch) * batch.prod(1).sum()

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            filled = x.masked_fill(x > 0, 0.5) * x.prod(1, keepdim=True)
            output: torch.Tensor = self.layer(filled)
            return output.masked_fill(output > 0, torch.tensor(0.1))

    assert train(tmp_path, Scaled, vectors(), loss=loss).flops.counted
