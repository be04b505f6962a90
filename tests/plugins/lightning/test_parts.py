"""What counts as forward: calls of the module's parts, or of what is inside a part that is only used."""

from typing import Any

import pytest
import torch
from torch import nn

from traintrace import facts


def _inside(lab: Any, *wrappers: type[nn.Module]) -> Any:
    """Give a part that sleeps in the given wrappers, each with it as `inner`."""
    part: Any = lab.Net(4, 1)
    for wrapper in wrappers:
        outer: Any = wrapper()
        outer.inner = part
        part = outer
    return part


class _Used(nn.Module):
    """Can be called, and is not: what it holds is called through a method."""

    def encode(self, x: Any) -> Any:
        inner: Any = self.inner
        return inner.encode(x) if hasattr(inner, "encode") else inner(x)

    def forward(self, x: Any) -> Any:
        return self.encode(x)


@pytest.mark.parametrize("levels", [1, 3])
def test_a_model_used_through_its_methods_is_seen(lab: Any, levels: int) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = _inside(lab, *[_Used] * levels)
            self.loss = nn.MSELoss()  # its call says nothing about the model's

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            lab.work("other", 10)
            return self.loss(self.net.encode(batch), torch.zeros(1, 1))

    run = lab.fit(Model(), lab.loader(8, 0))
    run.check_books()
    # One level is found after each of the first steps.
    seen = run.steps["forward_ns"][levels:]
    assert min(seen) >= 3e6
    assert run.ms("other") >= run.taken["other"] / 1e6  # the step's own work is in no forward
    assert run.steps["forward_calls"][levels:] == [2] * (8 - levels)
    # Before, the loss alone was seen: that is no forward, and these steps count as warm-up.
    assert run.steps["forward_ns"][:levels] == [None] * levels
    assert run.flagged(facts.WARMUP) == [True] * levels + [False] * (8 - levels)
    assert [event.kind for event in run.rank.events].count("approximation") == 0


def test_layers_taken_out_of_a_container_of_torch_are_seen(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net: Any = nn.Sequential(nn.Linear(4, 4), lab.Net(4, 1))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            for layer in self.net:
                batch = layer(batch)
            return batch.mean()

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    assert run.steps["forward_calls"] == [0, 2, 2, 2]
    assert run.steps["forward_ns"][0] is None
    assert min(run.steps["forward_ns"][1:]) >= 3e6


def _two_parts(lab: Any) -> Any:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = lab.Net(4, 4)

        def encode(self, x: Any) -> Any:
            return self.inner(x)

        def forward(self, x: Any) -> Any:
            return self.encode(x)

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net, self.other = Part(), Part()

        def on_validation_batch_start(self, *arguments: Any) -> None:
            self.other(torch.zeros(1, 4))

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            pass

    return Model()


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_step_of_which_only_a_part_was_seen_has_no_forward(lab: Any, accumulation: int) -> None:
    def step(batch: Any, batch_idx: int) -> Any:
        return model.other.encode(model.net(batch)).mean()

    model = _two_parts(lab)
    model.training_step = step
    run = lab.fit(
        model,
        lab.loader(6, 0),
        lab.evaluation_loader(),
        accumulate_grad_batches=accumulation,
        val_check_interval=accumulation,
    )
    run.check_books()
    steps = 6 // accumulation
    assert run.column_ms("forward")[0] is None
    assert min(run.column_ms("forward")[1:]) >= 6 * accumulation
    assert run.steps["forward_calls"] == [0] + [2 * accumulation] * (steps - 1)
    assert run.flagged(facts.WARMUP) == [True] + [False] * (steps - 1)


def test_two_parts_that_are_called_are_whole_from_the_second_step_on(lab: Any) -> None:
    def step(batch: Any, batch_idx: int) -> Any:
        return model.other(model.net(batch)).mean()

    model = _two_parts(lab)
    model.training_step = step
    run = lab.fit(model, lab.loader(4, 0))
    run.check_books()
    assert run.steps["forward_calls"] == [0, 2, 2, 2]
    assert min(run.column_ms("forward")[1:]) >= 6


def test_a_module_that_calls_itself_is_whole_and_not_looked_into(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net: Any = nn.Sequential(nn.Linear(4, 4), lab.Net(4, 1))

        def forward(self, x: Any) -> Any:
            return self.net(x)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            found.append("_compiled_call_impl" in vars(self.net[0]))
            return self(batch).mean()

    found: list[bool] = []
    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    run.check_truth("forward")
    assert run.steps["forward_calls"] == [1] * 4
    assert found == [False] * 4
    assert not any(run.flagged(facts.WARMUP))


def test_a_loss_module_does_not_hide_a_model_that_is_never_called(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.loss = nn.MSELoss()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            lab.work("forward", 10)
            output = nn.functional.linear(batch, self.net.weight, self.net.bias)
            return self.loss(output, torch.zeros(1, 1))

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    assert run.steps["forward_ns"][0] is None
    assert all(ns >= 10e6 for ns in run.steps["forward_ns"][1:])
    assert [event.kind for event in run.rank.events].count("approximation") == 1


def test_slow_work_beside_the_model_is_not_taken_for_forward(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            lab.work("other", 40)
            return super().training_step(batch, batch_idx)

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    run.check_truth("forward")
    assert run.taken["other calls"] == 4
    assert [event.kind for event in run.rank.events].count("approximation") == 0


@pytest.mark.parametrize("kind", ["own", "of torch"])
def test_a_part_that_every_step_calls_is_not_looked_into(lab: Any, kind: str) -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Part() if kind == "own" else nn.Sequential(nn.Linear(4, 4))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            (inner,) = self.net.children()
            found.append("_compiled_call_impl" in vars(inner))
            return self.net(batch).mean()

    found: list[bool] = []
    run = lab.fit(Model(), lab.loader(3, 0))
    assert found == [False] * 3
    assert run.steps["forward_calls"] == [1] * 3
    assert [event.kind for event in run.rank.events].count("approximation") == 0
