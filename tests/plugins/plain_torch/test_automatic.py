"""Loops that say nothing of tracing: `attach` alone, then an ordinary script's code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.labs.automatic import Script, made
from tests.labs.untouched import Net, Slow, loader_of, update


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    script.attach()
    yield script
    script.detach()


def test_an_ordinary_loop_has_its_steps_and_phases(script: Script) -> None:
    model, optimizer = made()
    data = Slow(12, ms=4)
    for _ in range(2):
        for batch in loader_of(data):
            update(model, optimizer, batch)
    slept = data.slept_ns
    rank = script.rank()
    assert rank.totals.steps == 12
    assert rank.columns["forward_calls"] == [1] * 12
    assert rank.columns["backward_calls"] == [1] * 12
    assert rank.columns["optimizer_calls"] == [1] * 12
    assert rank.columns["epoch"] == [0] * 6 + [1] * 6
    assert rank.totals.account_ns["input_wait"] >= slept - 10_000
    assert not {"input_wait", "forward", "backward"} & set(rank.unmeasured)
    assert rank.setup.parameter_count == 5


def test_options_reach_the_run(script: Script) -> None:
    script.detach()
    script.attach(level="step", max_steps=3, name="mine")
    model, optimizer = made()
    for batch in loader_of(12):
        update(model, optimizer, batch)
    rank = script.rank()
    assert script.folders()[0].name == "mine"
    assert (rank.totals.steps, rank.level) == (3, "step")


def test_an_evaluation_between_epochs_is_in_no_step(script: Script) -> None:
    model, optimizer = made()
    for _ in range(2):
        model.train()
        for batch in loader_of(6):
            update(model, optimizer, batch)
        model.eval()
        with torch.no_grad():
            for batch in loader_of(Slow(4, ms=5)):
                model(batch)
    rank = script.rank()
    assert rank.columns["input_wait_calls"] == [1] * 6
    # The second evaluation comes after the last step.
    assert rank.totals.account_ns["gap"] >= 20e6
    assert rank.columns["forward_calls"] == [1] * 6


def test_an_evaluation_with_gradients_on_is_in_no_step(script: Script) -> None:
    model, optimizer = made()
    for _ in range(2):
        model.train()
        for batch in loader_of(6):
            update(model, optimizer, batch)
        model.eval()
        for batch in loader_of(4):
            model(batch)
    assert script.rank().columns["samples"] == [2] * 6


def test_accumulated_batches_are_one_step(script: Script) -> None:
    model, optimizer = made()
    for number, batch in enumerate(loader_of(16)):
        model(batch).mean().backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    rank = script.rank()
    assert rank.columns["micro_batches"] == [4, 4]
    assert rank.columns["backward_calls"] == [4, 4]


def test_both_models_of_a_gan_are_forward(script: Script) -> None:
    (generator, of_generator), (critic, of_critic) = made(), made()
    for batch in loader_of(8):
        fake = generator(batch).expand(-1, 4)
        (critic(batch).mean() - critic(fake.detach()).mean()).backward()
        of_critic.step()
        (-critic(fake).mean()).backward()
        of_generator.step()
    rank = script.rank()
    assert rank.columns["forward_calls"] == [4] * 4
    assert rank.columns["backward_calls"] == [2] * 4
    assert rank.columns["optimizer_calls"] == [2] * 4


def test_a_module_that_holds_both_models_and_is_never_called_hides_neither(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests before this one may have compiled something, which would explain unseen calls as well.
    monkeypatch.setattr("traintrace.pytorch.unseen.graphs_exist", lambda: False)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Net(), Net()

    both = Both()
    optimizer = torch.optim.SGD(both.parameters(), lr=0.1)
    with pytest.warns(match="not called through __call__"):
        for batch in loader_of(16):
            (both.first(batch) + both.second(batch)).mean().backward()
            optimizer.step()
    assert script.rank().columns["forward_calls"] == [0, 0, 0, 2, 2, 2, 2, 2]


def test_a_wrapper_is_what_is_called(script: Script) -> None:
    model, optimizer = made()
    wrapped = nn.DataParallel(model)
    for batch in loader_of(6):
        update(wrapped, optimizer, batch)
    assert script.rank().columns["forward_calls"] == [1] * 3


def test_a_compiled_model_has_as_many_graphs_as_without_us(script: Script) -> None:
    counters = torch._dynamo.utils.counters

    def train() -> int:
        torch._dynamo.reset()
        before = counters["stats"]["unique_graphs"]
        model, optimizer = made()
        compiled: Any = torch.compile(model, backend="eager")
        for _ in range(2):
            for batch in loader_of(6):
                update(compiled, optimizer, batch)
            with torch.no_grad():
                compiled(torch.ones(2, 4))
        return int(counters["stats"]["unique_graphs"] - before)

    traced = train()
    rank = script.rank()
    assert rank.columns["forward_calls"] == [1] * 6
    assert traced == train()


def test_a_script_that_never_trains_leaves_nothing(script: Script) -> None:
    model, optimizer = made()
    with torch.no_grad():
        for batch in loader_of(6):
            model(batch)
    assert script.folders() == []
    for batch in loader_of(6):  # gradients on: it could be the first epoch
        model(batch)
    script.detach()
    assert script.folders() == []
    assert optimizer.state_dict()["state"] == {}


def test_without_an_optimizer_nothing_but_its_constructor_is_replaced(script: Script) -> None:
    script.detach()
    untouched = torch.utils.data.DataLoader.__iter__, torch.autograd.backward
    script.attach()
    assert (torch.utils.data.DataLoader.__iter__, torch.autograd.backward) == untouched
    made()
    assert torch.autograd.backward is not untouched[1]
    script.detach()
    assert (torch.utils.data.DataLoader.__iter__, torch.autograd.backward) == untouched


def test_a_model_compiled_before_the_loop_is_not_compiled_again(script: Script) -> None:
    counters = torch._dynamo.utils.counters
    torch._dynamo.reset()
    before = counters["stats"]["unique_graphs"]
    model, optimizer = made()
    compiled: Any = torch.compile(model, backend="eager")
    compiled(torch.ones(2, 4)).mean().backward()  # a warm-up with a backward: the span begins
    optimizer.zero_grad()
    graphs = counters["stats"]["unique_graphs"]
    for _ in range(2):
        for batch in loader_of(6):
            update(compiled, optimizer, batch)
    assert counters["stats"]["unique_graphs"] == graphs == before + 1
    rank = script.rank()
    assert rank.columns["micro_batches"] == [1] * 6
    assert rank.columns["backward_calls"] == [1] * 6
    assert rank.columns["optimizer_calls"] == [1] * 6
