"""Counting changes nothing: losses and weights to the bit, random draws, memory, errors; and what it refuses."""

import gc
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tests.core.test_flops import Attention, Recomputed
from tests.labs.coresessions import open_session
from tests.labs.counted import COLUMNS, mean_square, no_graphs, random_batches, train, two_layers
from tests.labs.torch_loop import CountingBackend
from traintrace import open_run
from traintrace.ports import Ports
from traintrace.pytorch.flop_refusals import COMPILED
from traintrace.pytorch.flops import COUNTED_STEPS, StepFlopCounter
from traintrace_plain_torch import trace

STEPS = 9

__all__ = ["no_graphs"]


class Mixed(nn.Module):
    """A bit of everything that may take another way under a dispatch mode."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.cells = nn.GRU(16, 8, batch_first=True, bidirectional=True)
        self.filter, self.norm = nn.Conv1d(16, 4, 3), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.cells(self.block(self.words(x)))[0]
        output: torch.Tensor = self.norm(self.filter(mixed.transpose(1, 2)))
        return torch.einsum("bcl,bdl->bcd", output, output)


def words() -> Sequence[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(0, 11, (4, 6), generator=generator) for _ in range(STEPS)]


def vectors() -> Sequence[torch.Tensor]:
    return random_batches(*(4,) * STEPS)


def texts() -> Sequence[torch.Tensor]:
    return [batch.view(4, 1, 8).expand(4, 5, 8).clone() for batch in vectors()]


def images() -> Sequence[torch.Tensor]:
    return [batch.view(4, 1, 2, 4).expand(4, 3, 2, 4).clone() for batch in vectors()]


@pytest.mark.parametrize(
    ("make", "batches", "accumulate"),
    [
        (two_layers, vectors, 1),
        (two_layers, vectors, 3),
        (Attention, texts, 1),
        (Mixed, words, 1),
        (lambda: Recomputed(False), vectors, 1),
        (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Dropout2d(0.3)),
            images,
            1,
        ),
    ],
)
def test_losses_and_weights_are_the_same_to_the_bit(
    tmp_path: Path,
    make: Callable[[], nn.Module],
    batches: Callable[[], Sequence[torch.Tensor]],
    accumulate: int,
) -> None:
    counted = train(tmp_path, make, batches(), accumulate=accumulate)
    draws = torch.rand(3)
    plain = train(None, make, batches(), accumulate=accumulate)
    assert counted.flops.counted
    assert counted.same_as(plain)
    assert torch.equal(draws, torch.rand(3))


def test_an_error_in_a_counted_step_goes_on_and_nothing_stays(tmp_path: Path) -> None:
    model = two_layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Stopped(Exception):
        pass

    def stop(*args: Any) -> None:
        if len(seen) == 3:
            assert _get_current_dispatch_mode() is not None
            raise Stopped

    seen: list[int] = []
    model[1].register_forward_hook(stop)  # type: ignore[index]
    with (
        pytest.raises(Stopped),
        trace(
            model, optimizer, run_dir=tmp_path, print_report=False, flops_per_step="count"
        ) as tracer,
    ):
        for batch in tracer.batches(random_batches(4, 4, 4, 4)):
            seen.append(1)
            with tracer.step():
                mean_square(model, batch).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    assert _get_current_dispatch_mode() is None
    assert tracer.run_folder is not None
    (rank,) = open_run(tracer.run_folder).facts(COLUMNS).ranks
    assert rank.flops is not None
    assert rank.flops.counted == ()  # a part of a step is no step


def test_nothing_of_a_step_is_kept(tmp_path: Path) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        output = model(batch)
        alive.append(weakref.ref(output))
        value: torch.Tensor = output.mean()
        return value

    train(tmp_path, two_layers, vectors(), loss=loss)
    gc.collect()
    assert [one for one in alive if one() is not None] == []


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_not_counted_and_keeps_its_graphs(
    tmp_path: Path, in_place: bool
) -> None:
    def graphs(folder: Path | None) -> tuple[int, Any]:
        torch._dynamo.reset()
        backend = CountingBackend()

        def make() -> nn.Module:
            model = two_layers()
            if not in_place:
                return torch.compile(model, backend=backend)  # type: ignore[return-value]
            model.compile(backend=backend)
            return model

        ran = train(folder, make, vectors())
        return backend.graphs, ran

    without, plain = graphs(None)
    with_counting, counted = graphs(tmp_path)
    torch._dynamo.reset()
    assert with_counting == without
    assert counted.same_as(plain)
    assert counted.flops.counted == ()
    assert counted.flops.not_counted == COMPILED


def test_several_devices_in_one_process_are_not_counted(tmp_path: Path) -> None:
    ran = train(tmp_path, lambda: nn.DataParallel(two_layers()), vectors())
    assert ran.flops.counted == ()
    assert "in pieces (dp)" in ran.flops.not_counted


def test_why_nothing_was_counted_is_said(tmp_path: Path) -> None:
    short = train(tmp_path, two_layers, random_batches(4, 4))
    assert "number from 3 on" in short.flops.not_counted
    unseen = train(
        tmp_path, two_layers, vectors(), loss=lambda model, batch: model.forward(batch).mean()
    )
    assert "was not called" in unseen.flops.not_counted or unseen.flops.counted
    level = train(tmp_path, two_layers, vectors(), level="step")
    assert "level" in level.flops.not_counted


def test_steps_that_a_guard_or_a_profiler_measures_are_left_as_they_are(tmp_path: Path) -> None:
    def wanted(**options: Any) -> list[int]:
        counter = StepFlopCounter()
        session = open_session(
            tmp_path, ports=Ports(flops=counter), flops_per_step="count", **options
        )
        session.finish("completed")
        return [
            step for step in COUNTED_STEPS if f"from {step} on" in counter.facts(True).not_counted
        ]

    assert wanted() == [3]
    assert wanted(keep_steps=(2, 10)) == [21]
    assert wanted(profile_steps=(3, 5)) == [8]


def test_without_the_option_nothing_is_counted_and_no_reason_is_given(tmp_path: Path) -> None:
    ran = train(tmp_path, two_layers, vectors(), flops_per_step=None)
    assert (ran.flops.counted, ran.flops.not_counted, ran.flops.flops_per_step) == ((), "", None)
    given = train(tmp_path, two_layers, vectors(), flops_per_step=3e9, peak_tflops=2.5)
    assert (given.flops.flops_per_step, given.flops.peak_tflops) == (3e9, 2.5)
