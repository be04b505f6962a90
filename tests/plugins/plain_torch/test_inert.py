"""Tracing never changes training: losses, random draws, graphs, types, pickles, threads, patches."""

import copy
import io
import pickle
import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from traintrace import open_run
from traintrace.registry import REGISTRY
from traintrace_plain_torch import Tracer, trace


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(8, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Noisy(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(4) + index


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Tracer]:
    def make(*arguments: Any, **options: Any) -> Tracer:
        options = {"run_dir": tmp_path, "print_report": False, **options}
        return trace(*arguments, **options)

    return make


def train(
    make: Callable[..., Tracer], mode: str, workers: int = 0
) -> tuple[list[float], list[Any], Any]:
    torch.manual_seed(3)
    random.seed(3)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader: Any = DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=workers)
    losses = []

    def step(batch: torch.Tensor) -> None:
        loss = model(batch).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())

    if mode == "absent":
        for _ in range(3):
            for batch in loader:
                step(batch)
    else:
        with make(model, optimizer, enabled=mode == "on") as tracer:
            for _ in range(3):
                for batch in tracer.batches(loader):
                    with tracer.step():
                        step(batch)
    weights = [parameter.tolist() for parameter in model.parameters()]
    return losses, weights, (torch.get_rng_state().tolist(), random.getstate())


@pytest.mark.parametrize("workers", [0, 2])
def test_losses_weights_and_random_draws_are_the_same_to_the_bit(make: Any, workers: int) -> None:
    absent = train(make, "absent", workers)
    assert train(make, "on", workers) == absent
    assert train(make, "off", workers) == absent


def test_the_first_run_of_a_process_draws_no_random_number_and_loads_nothing_heavy_until_it_ends(
    tmp_path: Path,
) -> None:
    code = """
        import random, sys, torch
        before = set(sys.modules)
        from traintrace_plain_torch import trace
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        heavy = {"rich", "click", "jsonschema", "traintrace_reporting", "traintrace_analysis", "lightning",
                 "transformers", "pandas", "sklearn"}
        assert not new & heavy, new & heavy
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = random.getstate(), torch.get_rng_state().tolist()
        with trace(model, optimizer, run_dir=sys.argv[1]) as tracer:
            for batch in tracer.batches([torch.ones(2, 4)] * 3):
                with tracer.step():
                    model(batch).mean().backward()
                    optimizer.step()
            tracer.summary()
        assert (random.getstate(), torch.get_rng_state().tolist()) == before
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)


def test_a_disabled_trace_hands_everything_back_untouched(make: Any, tmp_path: Path) -> None:
    model, loader = Net(), [torch.ones(4)]
    before = (type(model).__call__, torch.autograd.backward)
    with make(model, enabled=False) as tracer:
        assert tracer.batches(loader) is loader
        assert (type(model).__call__, torch.autograd.backward) == before
    assert tracer.summary() == {}
    assert list(tmp_path.iterdir()) == []


def test_every_patch_is_undone_after_success_and_after_an_exception(make: Any) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    backward, grad = torch.autograd.backward, torch.autograd.grad
    for error in (None, ValueError("x")):
        try:
            with make(model, optimizer):
                assert "__call__" in vars(Net)
                assert torch.autograd.backward is not backward
                if error is not None:
                    raise error
        except ValueError:
            pass
        assert "__call__" not in vars(Net)
        assert torch.autograd.backward is backward
        assert torch.autograd.grad is grad
        assert "_compiled_call_impl" not in vars(model)


def test_the_model_pickles_and_copies_while_it_is_traced_and_a_copy_emits_nothing(
    make: Any,
) -> None:
    model = Net()
    with make(model, torch.optim.SGD(model.parameters(), lr=0.1)) as tracer:
        buffer = io.BytesIO()
        torch.save(model, buffer)
        pickle.dumps(model.state_dict())
        twin = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        with tracer.step():
            assert not twin(torch.ones(1, 4)).any()  # the copy's own weights
            model(torch.ones(1, 4)).mean().backward()
            next(iter(model.parameters())).grad = None
            tracer._session.capture.updated = True
    buffer.seek(0)
    assert isinstance(torch.load(buffer, weights_only=False), Net)
    columns = open_run(tracer.run_folder).facts(["forward_calls"]).ranks[0].columns
    assert columns["forward_calls"] == [1]


@pytest.mark.parametrize("kind", ["class", "torch class", "nested"])
def test_one_call_of_the_model_is_one_forward(make: Any, kind: str) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    model = {
        "class": Net,
        "torch class": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 1))),
        "nested": Outer,
    }[kind]()
    with make(model) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)] * 3):
            with tracer.step():
                model(batch).mean().backward()
    columns = (
        open_run(tracer.run_folder).facts(["forward_calls", "backward_calls"]).ranks[0].columns
    )
    assert columns == {"forward_calls": [1, 1, 1], "backward_calls": [1, 1, 1]}


def test_a_wrapped_model_is_seen_once_wherever_the_wrapper_was_made(make: Any) -> None:
    model = Net()
    with make(model) as tracer:
        wrapped = nn.DataParallel(model)  # without a GPU it calls the module inside
        for batch in tracer.batches([torch.ones(2, 4)] * 2):
            with tracer.step():
                wrapped(batch).mean().backward()
    columns = open_run(tracer.run_folder).facts(["forward_calls"]).ranks[0].columns
    assert columns["forward_calls"] == [1, 1]


def test_recomputation_is_backward_and_not_another_forward(make: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.layers, x, use_reentrant=False)

    model = Checkpointed()
    with make(model) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)] * 2):
            with tracer.step():
                model(batch).mean().backward()
    columns = (
        open_run(tracer.run_folder).facts(["forward_calls", "backward_calls"]).ranks[0].columns
    )
    assert columns == {"forward_calls": [1, 1], "backward_calls": [1, 1]}


def test_an_exception_inside_the_model_closes_its_forward(make: Any) -> None:
    class Fragile(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not x.any():
                raise KeyboardInterrupt
            return self.layers(x)

    model = Fragile()
    with make(model) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)]):
            with tracer.step():
                with pytest.raises(KeyboardInterrupt):
                    model(torch.zeros(2, 4))
                model(batch).mean().backward()
    columns = open_run(tracer.run_folder).facts(["forward_calls"]).ranks[0]
    assert columns.columns["forward_calls"] == [2]
    assert columns.totals.unbalanced == 0


@pytest.mark.parametrize("when", ["before", "during"])
def test_the_number_of_compiled_graphs_is_the_same_with_and_without(make: Any, when: str) -> None:
    import torch._dynamo

    def graphs(traced: bool) -> int:
        torch._dynamo.reset()
        seen: list[int] = []

        def backend(module: Any, inputs: Any) -> Any:
            seen.append(1)
            return module.forward

        class Own(Net):
            pass

        model = Own()
        model.layers[1] = nn.Identity()
        compiled: Any = (
            torch.compile(model, backend=backend, fullgraph=True) if when == "before" else None
        )
        if not traced:
            if compiled is None:
                compiled = torch.compile(model, backend=backend, fullgraph=True)
            for _ in range(3):
                compiled(torch.ones(2, 4)).mean().backward()
            return len(seen)
        with make(model) as tracer:
            if compiled is None:
                compiled = torch.compile(model, backend=backend, fullgraph=True)
            for batch in tracer.batches([torch.ones(2, 4)] * 3):
                with tracer.step():
                    compiled(batch).mean().backward()
        columns = open_run(tracer.run_folder).facts(["forward_calls"]).ranks[0].columns
        assert columns["forward_calls"] == [1, 1, 1]
        return len(seen)

    assert graphs(traced=True) == graphs(traced=False) == 1


def test_hooks_on_other_threads_return_at_once_and_are_counted(make: Any) -> None:
    model = Net()
    with make(model) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)] * 2):
            with tracer.step():
                thread = threading.Thread(target=lambda: model(torch.ones(1, 4)).mean().backward())
                thread.start()
                thread.join()
                model(batch).mean().backward()
    rank = open_run(tracer.run_folder).facts(["forward_calls"]).ranks[0]
    assert rank.columns["forward_calls"] == [1, 1]
    assert rank.totals.foreign_calls == 4


def test_a_forked_worker_records_nothing(make: Any) -> None:
    model = Net()
    sessions: list[Any] = []

    class Forking(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            model(torch.ones(1, 4))  # in a worker, with the training thread's identity
            written = len(sessions[0].journal._entries)
            model(torch.ones(1, 4))
            silent = len(sessions[0].journal._entries) == written and REGISTRY.current() is None
            return torch.full((4,), float(silent))

    with make(model) as tracer:
        sessions.append(tracer._session)
        loader: Any = DataLoader(
            Forking(), batch_size=2, num_workers=1, multiprocessing_context="fork"
        )
        for batch in tracer.batches(loader):
            assert batch.all(), "the worker wrote into its copy of the journal"
            with tracer.step():
                model(batch).mean().backward()
    rank = open_run(tracer.run_folder).facts(["forward_calls"]).ranks[0]
    assert rank.columns["forward_calls"] == [1, 1]
    assert len(list((tracer.run_folder / "ranks").iterdir())) == 1


def test_gradients_taken_inside_forward_stay_forward(make: Any) -> None:
    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.requires_grad_()
            energy = self.net(x).sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
            return force

    model = Forces()
    with make(model) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)] * 2):
            with tracer.step():
                model(batch).mean().backward()
    columns = (
        open_run(tracer.run_folder).facts(["forward_calls", "backward_calls"]).ranks[0].columns
    )
    assert columns == {"forward_calls": [1, 1], "backward_calls": [1, 1]}
