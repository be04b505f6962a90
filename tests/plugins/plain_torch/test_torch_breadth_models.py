"""Every kind of model, and what may be done to one, in a loop that is traced."""

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from tests.labs.torch_loop import (
    BATCH,
    Net,
    Recorded,
    saved_and_loaded,
    sgd,
    trained,
    update,
)
from traintrace_plain_torch import trace

ONCE = ([1] * 4, [1] * 4, [1] * 4)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_scripted_models_are_null_with_a_reason_and_scripting_a_traced_model_works(
    tmp_path: Path,
) -> None:
    scripted: Any = torch.jit.script(nn.Linear(4, 1))
    optimizer = sgd(scripted)
    run = trained(tmp_path, scripted, optimizer, functools.partial(update, scripted, optimizer))
    assert run["forward_ns"] == [None] * 4
    assert "ScriptModule" in run.rank.unmeasured["forward"]
    assert run.phase_calls("backward", "optimizer") == ([1] * 4, [1] * 4)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_traced_model_can_be_exported_in_the_middle_of_a_run(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    expected: list[torch.Tensor] = []

    def step(batch: torch.Tensor) -> None:
        if not expected:
            expected.append(model(batch))
            jit: Any = torch.jit
            traced = jit.trace(nn.Sequential(model.first), batch)
            assert torch.equal(traced(batch), model.first(batch))
            graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4)))
            assert graph(batch).shape == (2, 4)
            exported = torch.export.export(model.second, (batch,))
            assert torch.equal(exported.module()(batch), model.second(batch))
        update(model, optimizer, batch)

    run = trained(tmp_path, model, optimizer, step)
    assert run.phase_calls() == ([2, 1, 1, 1], [1] * 4, [1] * 4)


def test_parametrizations_may_be_added_while_the_model_is_traced(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    batches = iter(range(10))

    def step(batch: torch.Tensor) -> None:
        if next(batches) == 1:  # gives the layer a class of its own
            parametrizations.spectral_norm(model.second)
        update(model, optimizer, batch)

    assert trained(tmp_path, model, optimizer, step).phase_calls() == ONCE


def test_a_model_that_calls_itself_is_one_forward(tmp_path: Path) -> None:
    class Recursive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, depth: int = 3) -> torch.Tensor:
            output: torch.Tensor = self.layer(x)
            return self(output, depth - 1) if depth else output

    model = Recursive()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, functools.partial(update, model, optimizer))
    assert run.phase_calls() == ONCE


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_forward_that_raises_and_is_caught_costs_nothing_but_its_time(
    tmp_path: Path, error: type[BaseException]
) -> None:
    class Fragile(Net):
        fails = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.fails:
                raise error
            return super().forward(x)

    model = Fragile()
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        model.fails = True
        with pytest.raises(error):
            model(batch)
        model.fails = False
        update(model, optimizer, batch)

    run = trained(tmp_path, model, optimizer, step)
    assert run.phase_calls() == ([2] * 4, [1] * 4, [1] * 4)


def _moved(model: nn.Module) -> nn.Module:
    return model.to(torch.float64).to(torch.float32)


@pytest.mark.parametrize("change", [_moved, copy.deepcopy, copy.copy, saved_and_loaded])
@pytest.mark.parametrize("kind", ["own class", "torch class"])
def test_a_model_moved_or_copied_while_it_is_traced_stays_itself(
    tmp_path: Path, kind: str, change: Callable[[nn.Module], nn.Module]
) -> None:
    model: Any = Net() if kind == "own class" else nn.Sequential(nn.Linear(4, 1))
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        twin = change(model)
        if twin is not model:
            for parameter in copy.copy(list(twin.parameters())):
                if not any(parameter is own for own in model.parameters()):
                    parameter.data.zero_()
            twin(batch)  # the copy's own call: with its own weights, and not counted
        update(model, optimizer, batch)

    assert trained(tmp_path, model, optimizer, step).phase_calls() == ONCE


def test_replicas_of_a_traced_model_compute_with_their_own_weights(tmp_path: Path) -> None:
    """DataParallel's replicas share the model's attributes: a patched call slot would come along."""
    model = nn.Sequential(nn.Linear(4, 1))
    optimizer = sgd(model)

    class Parallel(nn.DataParallel[nn.Module]):  # as over two devices, on a machine that has none
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            module: Any = self.module
            replica = module._replicate_for_data_parallel()
            replica._modules["0"] = nn.Linear(4, 1)
            nn.init.constant_(replica[0].weight, 2.0)
            nn.init.zeros_(replica[0].bias)
            output: torch.Tensor = replica(x)
            return output

    parallel = Parallel(model)
    parallel.device_ids = [0, 1]
    seen: list[float] = []

    def step(batch: torch.Tensor) -> None:
        output = parallel(batch)
        seen.append(output[0].item())
        output.mean().backward()
        optimizer.step()

    run = trained(tmp_path, parallel, optimizer, step)
    assert seen == [8.0] * 4
    assert run["forward_calls"] == [1] * 4


def test_two_models_that_are_given_as_a_list_both_count(tmp_path: Path) -> None:
    first, second = Net(), nn.Sequential(nn.Linear(1, 1))
    optimizer = sgd(first, second)
    both = nn.ModuleDict({"first": first, "second": second})
    run = trained(
        tmp_path, both, optimizer, lambda batch: update(lambda x: second(first(x)), optimizer)
    )
    assert run.phase_calls() == ([2] * 4, [1] * 4, [1] * 4)
    assert "forward" not in run.rank.unmeasured


def test_a_model_called_after_another_ones_backward_was_called_all_the_same(tmp_path: Path) -> None:
    model, other = Net(), Net()
    optimizer = sgd(model, other)

    def step(batch: torch.Tensor) -> None:
        other(batch).mean().backward()
        update(model, optimizer, batch)

    run = trained(tmp_path, model, optimizer, step, 1)
    assert run["forward_calls"] == [1]
    assert "forward" not in run.rank.unmeasured


def test_what_watches_for_unseen_calls_is_gone_once_calls_were_seen(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    with trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer:
        installed: list[Any] = [(torch.autograd.backward, torch.autograd.grad)]
        for batch in tracer.batches([BATCH] * 5):
            with tracer.step():
                update(model, optimizer, batch)
                installed.append((torch.autograd.backward, torch.autograd.grad))
    assert installed[3] == installed[5]
    assert all(a is not b for a, b in zip(installed[0], installed[3], strict=True))
    assert Recorded(tracer).rank.unmeasured.keys() == {"device_clock", "h2d"}
