"""Every way to differentiate and to update that torch offers, in a loop that is traced."""

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.labs.torch_loop import (
    BATCH,
    Net,
    Truth,
    sgd,
    trained,
    update,
)

ONCE = ([1] * 4, [1] * 4, [1] * 4)


# -- updates ---------------------------------------------------------------------------------------


def test_lbfgs_evaluates_its_closure_inside_one_update(tmp_path: Path) -> None:
    truth = Truth()
    model = Net(truth, forward_ms=2, backward_ms=2)
    optimizer: Any = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)
    calls: list[int] = []

    def closure() -> torch.Tensor:
        calls.append(1)
        optimizer.zero_grad()
        loss: torch.Tensor = model(BATCH).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch
        return loss

    run = trained(tmp_path, model, optimizer, lambda _: optimizer.step(closure))
    assert run["optimizer_calls"] == [1] * 4
    assert sum(run["forward_calls"]) == sum(run["backward_calls"]) == len(calls) > 4
    for name in ("forward", "backward"):
        assert run.account_ns[name] >= truth.ns[name]


class Descent:
    """An optimizer that knows nothing of torch's."""

    def __init__(self, model: nn.Module, truth: Truth) -> None:
        self.parameters, self.truth = list(model.parameters()), truth

    @torch.no_grad()
    def step(self) -> None:
        self.truth.sleep("optimizer", 3)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.01)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


class Uninitialised(torch.optim.Optimizer):
    """An optimizer whose `super().__init__` was never called, so that torch never wrapped its step."""

    def __init__(self, model: nn.Module, truth: Truth) -> None:
        self.inner = Descent(model, truth)
        self.param_groups = [{"params": self.inner.parameters}]

    def step(self, closure: Any = None) -> Any:
        self.inner.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad()


@pytest.mark.parametrize("kind", [Descent, Uninitialised])
def test_an_optimizer_that_torch_does_not_hook_is_seen_if_it_was_given(
    tmp_path: Path, kind: Any
) -> None:
    truth, model = Truth(), Net()
    optimizer = kind(model, truth)
    run = trained(tmp_path, model, optimizer, functools.partial(update, model, optimizer))
    assert run.phase_calls() == ONCE
    assert run.account_ns["optimizer"] >= truth.ns["optimizer"]
    assert "step" not in vars(optimizer)


def test_updates_made_inside_backward_are_optimizer_time_and_end_their_step(tmp_path: Path) -> None:
    truth, model = Truth(), Net()
    optimizers: dict[Any, Any] = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def apply(parameter: torch.Tensor) -> None:
        truth.sleep("backward", 1)
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(apply)
    given = next(iter(optimizers.values()))
    run = trained(tmp_path, model, given, lambda batch: model(batch).mean().backward())
    assert run.phase_calls() == ([1] * 4, [1] * 4, [4] * 4)
    assert run.account_ns["optimizer"] > 0
    assert run.account_ns["backward"] >= truth.ns["backward"]


def test_schedulers_and_wrappers_over_an_optimizer_do_not_hide_its_steps(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # rebinds `step` on the instance
    original = optimizer.step

    @functools.wraps(original)
    def counting(*args: Any, **kwargs: Any) -> Any:  # and so do others
        return original(*args, **kwargs)

    optimizer.step = counting  # type: ignore[method-assign]

    def step(batch: torch.Tensor) -> None:
        update(model, optimizer, batch)
        scheduler.step()

    assert trained(tmp_path, model, optimizer, step).phase_calls() == ONCE


# -- gradients -------------------------------------------------------------------------------------


def test_autograd_grad_is_the_backward_of_its_step(tmp_path: Path) -> None:
    truth = Truth()
    model = Net(truth, backward_ms=4)
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(model(batch).mean(), parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()

    run = trained(tmp_path, model, optimizer, step)
    assert run.phase_calls() == ONCE
    assert run.account_ns["backward"] >= truth.ns["backward"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_blocks_are_backward(tmp_path: Path, reentrant: bool) -> None:
    truth, places = Truth(), itertools.cycle(["forward", "backward"])

    class Block(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            truth.sleep(next(places), 3)  # computed, then computed again
            return super().forward(x)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = checkpoint(self.block, x, use_reentrant=reentrant)
            return output

    model = Checkpointed()
    optimizer = sgd(model)
    batches = [torch.ones(2, 4, requires_grad=True) for _ in range(4)]
    step = functools.partial(update, model, optimizer)
    run = trained(tmp_path, model, optimizer, step, batches)
    assert run.phase_calls() == ONCE
    for name in ("forward", "backward"):
        assert run.account_ns[name] >= truth.ns[name] >= 4 * 3_000_000, name


@pytest.mark.parametrize("kind", ["functional_call", "vmap of grad"])
def test_functional_transforms_pass_through(tmp_path: Path, kind: str) -> None:
    model = Net()
    optimizer = sgd(model)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: Any, row: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = torch.func.functional_call(model, values, (row,))
        return output.mean()

    def step(batch: torch.Tensor) -> None:
        if kind == "functional_call":
            value: Any = loss(dict(model.named_parameters()), batch)
            value.backward()
        else:
            each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, batch)
            for name, parameter in model.named_parameters():
                parameter.grad = each[name].mean(0)
        optimizer.step()

    run = trained(tmp_path, model, optimizer, step)
    assert run["forward_calls"] == [1] * 4
    assert run["optimizer_calls"] == [1] * 4
