"""What `two_ranks.py` runs for `test_harmless.py`: loops that tracing could disturb, checked where they run.

What is measured is told by the runs that they leave in the folder; what must not change is asserted here.
"""

import inspect
import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_reduce as imported_before
from torch.nn.parallel import DistributedDataParallel

from tests.labs.torch_loop import BATCH, sgd
from traintrace_plain_torch import trace

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")  # imported for its numbers too
SLOWER_MS, STEPS = 20, 8
COLLECTIVES: Any = {
    name: getattr(dist, name)
    for name in ("all_reduce", "barrier", "broadcast", "all_gather_object")
}
SIGNATURES = {name: inspect.signature(function) for name, function in COLLECTIVES.items()}
BELOW = [function.__closure__[0].cell_contents for function in COLLECTIVES.values()]


def sleep_on_rank_1() -> None:
    time.sleep(SLOWER_MS * dist.get_rank() / 1e3)


class Net(nn.Module):
    """The gradient of the first layer's output is slow to come on rank 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)
        self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden.register_hook(lambda gradient: sleep_on_rank_1())
        return self.third(self.second(self.drop(hidden)))


class Evasive(nn.Module):
    """A wrapper that does not raise `AttributeError` for a name that it lacks."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise KeyError(name) from None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)


def train(name: str, model: nn.Module, step: Callable[[int], object]) -> None:
    """Train in a trace of its own; nothing of it may be left behind."""
    hooks, optimizer = hooks_of(model), sgd(model)
    with trace(model, optimizer, run_dir=FOLDER, name=name, print_report=False) as tracer:
        for number, _ in enumerate(tracer.batches([BATCH] * STEPS)):
            with tracer.step():
                step(number)
                optimizer.step()
                optimizer.zero_grad()
    assert [f.__closure__[0].cell_contents for f in COLLECTIVES.values()] == BELOW
    assert hooks_of(model) == hooks


def hooks_of(model: nn.Module) -> list[list[Any]]:
    parameters: Any = model.parameters()
    hooks = (getattr(one, "_post_accumulate_grad_hooks", None) for one in parameters)
    return [[*(each or {}).values()] for each in hooks]


def group_made_later() -> None:
    """Here the process group is made in the first step; the scenarios after this one use it."""
    net = Net()

    def step(number: int) -> None:
        if number == 0:
            dist.init_process_group("gloo")
        net(BATCH).mean().backward()

    train("group-made-later", net, step)


def frozen_after_the_first_backward() -> None:
    """The parameter that came first is frozen when the order of gradients has just been learnt."""
    net = Net()
    model = DistributedDataParallel(net, find_unused_parameters=True)

    def step(number: int) -> None:
        if number == 1:
            net.third.requires_grad_(False)
        model(BATCH).mean().backward()

    train("frozen-after-the-first-backward", model, step)


def backward_on_another_thread() -> None:
    """Parameters that are traced as well get gradients on a thread that does not train."""
    model, other = DistributedDataParallel(Net()), nn.Linear(4, 4)
    is_over = threading.Event()

    def keep_going() -> None:
        while not is_over.wait(0.001):
            other(BATCH).sum().backward()

    thread = threading.Thread(target=keep_going)

    def step(number: int) -> None:
        if number == 0:
            thread.start()
        model(BATCH).mean().backward()

    try:
        train("backward-on-another-thread", nn.ModuleList([model, other]), step)
    finally:
        is_over.set()
        thread.join()


def parameters_that_wait_for_a_batch() -> None:
    """Of a parameter without a shape nothing may be asked; here one comes before any other."""
    net = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 1))
    train("lazy-parameters", net, lambda number: net(BATCH).mean().backward())


def evasive_wrapper() -> None:
    model = Evasive(DistributedDataParallel(Net()))
    train("evasive-wrapper", model, lambda number: model(BATCH).mean().backward())


def gradients_averaged_by_hand() -> None:
    """A hook of the user's own averages each gradient, in the middle of backward."""
    net = Net()
    parameters: Any = net.parameters()
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    train("gradients-averaged-by-hand", net, lambda number: net(BATCH).mean().backward())


def functions_are_the_same() -> None:
    """Of the public functions nothing changes, and one that was imported before is seen as well."""
    net = Net()

    def step(number: int) -> None:
        net(BATCH).mean().backward()
        for name, function in COLLECTIVES.items():
            assert getattr(dist, name) is getattr(dist.distributed_c10d, name) is function
            assert inspect.signature(function) == SIGNATURES[name]
            assert pickle.loads(pickle.dumps(function)) is function
        sleep_on_rank_1()
        imported_before(torch.ones(1))
        with pytest.raises(TypeError):
            dist.all_reduce(torch.ones(1), op="sum")

    train("functions-are-the-same", net, step)


def the_same_bits() -> None:
    """Plain DDP, and accumulation with and without `no_sync`: losses and weights, traced and not."""
    for name, accumulate, has_no_sync in (
        ("each-batch", 1, False),
        ("accumulating", 2, False),
        ("no-sync", 2, True),
    ):

        def run(name: str, is_traced: bool, accumulate: int, has_no_sync: bool) -> list[bytes]:
            torch.manual_seed(3 + dist.get_rank())
            model = DistributedDataParallel(Net())
            bits: list[bytes] = []

            def step(number: int) -> None:
                for part in range(accumulate):
                    loss = model(torch.randn(2, 4)).square().mean()
                    if has_no_sync and part + 1 < accumulate:
                        with model.no_sync():
                            loss.backward()
                    else:
                        loss.backward()
                    bits.append(loss.detach().numpy().tobytes())

            if is_traced:
                train(name, model, step)
            else:
                optimizer = sgd(model)
                for number in range(STEPS):
                    step(number)
                    optimizer.step()
                    optimizer.zero_grad()
            return bits + [one.detach().numpy().tobytes() for one in model.parameters()]

        with_trace, without = (run(name, on, accumulate, has_no_sync) for on in (True, False))
        assert with_trace == without, name


SCENARIOS: tuple[Callable[[], None], ...] = (
    group_made_later,  # first: it makes the process group of all others
    frozen_after_the_first_backward,
    backward_on_another_thread,
    evasive_wrapper,
    parameters_that_wait_for_a_batch,
    gradients_averaged_by_hand,
    functions_are_the_same,
    the_same_bits,
)
