"""What `two_ranks.py` runs for `test_harmless.py`: the compiler makes as many graphs as without tracing."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo import compiled_autograd

from tests.labs.torch_loop import BATCH, CountingBackend
from tests.ranks.harmless_runs import STEPS, Net, train


def compiled_functions_with_collectives() -> None:
    """One is compiled before tracing, one in it; neither is compiled again, then or afterwards."""

    def average(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        dist.barrier()
        return y + 1

    def graphs(*, before: bool, during: bool) -> int:
        torch.compiler.reset()
        backend = CountingBackend()
        compiled = torch.compile(average, backend=backend)
        if before:
            compiled(BATCH)
        if during:
            net = Net()

            def step(number: int) -> None:
                compiled(BATCH)
                net(BATCH).mean().backward()

            train(f"compiled-{before}", net, step)
        compiled(BATCH)
        return backend.graphs

    untraced = graphs(before=True, during=False)
    assert untraced > 0
    assert graphs(before=True, during=True) == untraced
    assert graphs(before=False, during=True) == untraced


def compiled_backward() -> None:
    """The compiler is given autograd's graph too, and the hooks on its parameters."""

    def graphs(name: str) -> int:
        torch.compiler.reset()
        backend, model = CountingBackend(), nn.Linear(4, 1)

        def step(number: int) -> None:
            with compiled_autograd._enable(lambda graph: torch.compile(graph, backend=backend)):
                model(BATCH).mean().backward()

        if name:
            train(name, model, step)
        else:
            for number in range(STEPS):
                step(number)
                model.zero_grad()
        return backend.graphs

    untraced = graphs("")
    assert graphs("compiled-backward") == untraced > 0


SCENARIOS: tuple[Callable[[], None], ...] = (
    compiled_functions_with_collectives,
    compiled_backward,
)
