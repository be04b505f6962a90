"""A hand-written loop: boundaries, phases, and the report adding up to the clock."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from traintrace import facts, open_run
from traintrace_plain_torch import Tracer, log, region, trace

COLUMNS = [
    "step", "epoch", "micro_batches", "samples", "start_ns", "open_ns", "duration_ns", "flags",
    "input_wait_ns", "h2d_ns", "batch_prep_ns", "forward_ns", "backward_ns", "optimizer_ns", "other_ns",
    "user_ns", "forward_calls", "backward_calls", "optimizer_calls",
]  # fmt: skip


class Clocked:
    """Sleeps for known lengths and keeps what they really took: the truth of a recipe [ns]."""

    def __init__(self) -> None:
        self.taken: dict[str, list[int]] = {}

    def __call__(self, name: str, ms: float) -> None:
        start = time.perf_counter_ns()
        time.sleep(ms / 1e3)
        self.taken.setdefault(name, []).append(time.perf_counter_ns() - start)


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, clocked: Clocked) -> torch.Tensor:
        ctx.clocked = clocked
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.clocked("backward", 5)
        return grads[0], None


class Net(nn.Module):
    def __init__(self, clocked: Clocked | None = None) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.clocked = clocked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.clocked is None:
            return self.linear(x)
        self.clocked("forward", 4)
        apply: Any = _Backward.apply
        return apply(self.linear(x), self.clocked)


class Sgd(torch.optim.SGD):
    clocked: Clocked | None = None

    def step(self, closure: Any = None) -> Any:
        if self.clocked is not None:
            self.clocked("optimizer", 3)
        return super().step(closure)


class Items:
    """Five batches of four, each slow to make."""

    def __init__(self, clocked: Clocked | None = None, count: int = 5) -> None:
        self.clocked, self.count = clocked, count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(self.count):
            if self.clocked is not None:
                self.clocked("input_wait", 6)
            yield torch.randn(4, 4)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., tuple[Tracer, Net, Sgd]]:
    def make(clocked: Clocked | None = None, **options: Any) -> tuple[Tracer, Net, Sgd]:
        torch.manual_seed(0)
        model = Net(clocked)
        optimizer = Sgd(model.parameters(), lr=0.1)
        update(Net(), Sgd(Net().parameters(), lr=0.1), torch.randn(4, 4))  # torch's own first time
        optimizer.clocked = clocked
        options = {"run_dir": tmp_path, "print_report": False, **options}
        return trace(model, optimizer, **options), model, optimizer

    return make


def read(tracer: Tracer) -> facts.RunFacts:
    assert tracer.run_folder is not None
    return open_run(tracer.run_folder).facts(COLUMNS)


def update(model: Net, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def check_books(run: facts.RunFacts) -> None:
    """The laws that hold for any run: the sum is the wall, rows tile, a row is its accounts."""
    rank = run.ranks[0]
    totals, columns = rank.totals, rank.columns
    assert sum(totals.account_ns.values()) == totals.wall_ns
    edge = totals.start_ns
    for start, duration in zip(columns["start_ns"], columns["duration_ns"], strict=True):
        assert start == edge
        edge = (start or 0) + (duration or 0)
    in_rows = sum(duration or 0 for duration in columns["duration_ns"])
    after = sum(s.ns for s in rank.spans if s.step > totals.steps)
    assert in_rows + after == totals.wall_ns


def check_lower_bounds(rank: facts.RankFacts, clocked: Clocked) -> None:
    """Every account has what was slept in it: of disjoint accounts, one that holds too much robs another."""
    measured = dict(rank.totals.account_ns)
    # After the last step no batch is requested any more.
    measured["gap"] = measured.get("gap", 0) + measured.pop("shutdown")
    missing = {name: sum(spent) - measured.get(name, 0) for name, spent in clocked.taken.items()}
    assert {name: ns for name, ns in missing.items() if ns > 0} == {}


@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_every_account_is_what_the_clock_around_it_saw(make: Any, accumulation: int) -> None:
    closest: dict[str, float] = {}
    for _ in range(6):  # a loaded machine may stretch what lies around a sleep, not every time
        clocked = Clocked()
        rank = train_clocked(make, clocked, accumulation)
        excess = excess_over_truth(rank, clocked, accumulation)
        assert min(excess.values()) >= 0, "an account lost time that its sleeps really took"
        closest = {name: min(closest.get(name, more), more) for name, more in excess.items()}
        if max(closest.values()) <= 1:
            return
    raise AssertionError(f"time beyond 2 % or 0.5 ms a step, in units of that: {closest}")


def train_clocked(make: Any, clocked: Clocked, accumulation: int) -> facts.RankFacts:
    tracer, model, optimizer = make(clocked)
    with tracer:
        for number, batch in enumerate(tracer.batches(Items(clocked)), start=1):
            with tracer.step():
                model(batch).mean().backward()
                if number % accumulation == 0 or number == 5:
                    optimizer.step()
                    optimizer.zero_grad()
                clocked("other", 2)
            clocked("gap", 1)
    run = read(tracer)
    check_books(run)
    groups = {1: [1] * 5, 2: [2, 2, 1], 4: [4, 1]}[accumulation]
    assert run.ranks[0].columns["micro_batches"] == groups
    assert run.ranks[0].columns["samples"] == [4 * group for group in groups]
    return run.ranks[0]


def excess_over_truth(
    rank: facts.RankFacts, clocked: Clocked, accumulation: int
) -> dict[str, float]:
    """Give what each account has beyond its sleeps, in units of what is allowed: 2 % or 0.5 ms a step."""
    measured = dict(rank.totals.account_ns)
    truth = {name: sum(spent) for name, spent in clocked.taken.items()}
    measured["gap"] += measured.pop(
        "shutdown"
    )  # after the last step no batch is requested any more
    if accumulation > 1:  # between two micro-batches of one step the pause lies inside that step
        measured["other"] += measured.pop("gap")
        truth["other"] += truth.pop("gap")
    return {
        name: (measured[name] - spent) / max(0.02 * spent, 0.5e6 * 5)
        for name, spent in truth.items()
    }


def test_accumulation_inside_one_step_block(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        batches = iter(tracer.batches(Items(count=6)))
        for _ in range(2):
            with tracer.step():
                for _ in range(3):
                    model(next(batches)).mean().backward()
                optimizer.step()
    columns = read(tracer).ranks[0].columns
    assert columns["micro_batches"] == [3, 3]
    assert columns["forward_calls"] == [3, 3]
    assert columns["optimizer_calls"] == [1, 1]


def test_an_untouched_loop_gets_its_boundaries_from_its_updates(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for number, batch in enumerate(tracer.batches(Items()), start=1):
            model(batch).mean().backward()
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
    run = read(tracer)
    check_books(run)
    assert run.ranks[0].columns["micro_batches"] == [2, 2]
    # The fifth batch was never used for an update: its time is in the books, in no row.
    assert run.ranks[0].totals.account_ns["aborted"] > 0


def test_without_an_optimizer_each_block_is_a_step(make: Any, tmp_path: Path) -> None:
    model = Net()
    with trace(model, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches(Items()):
            with tracer.step():
                model(batch).mean().backward()
    assert read(tracer).ranks[0].columns["micro_batches"] == [1] * 5


def test_a_wrapped_loader_can_be_iterated_each_epoch_and_has_its_length(make: Any) -> None:
    tracer, model, optimizer = make()
    rows: Any = list(torch.randn(6, 4))
    loader: Any = DataLoader(rows, batch_size=2)
    with tracer:
        batches: Any = tracer.batches(loader)
        assert len(batches) == 3
        assert batches.batch_size == 2
        for _ in range(2):
            for batch in batches:
                with tracer.step():
                    update(model, optimizer, batch)
    columns = read(tracer).ranks[0].columns
    assert columns["epoch"] == [0, 0, 0, 1, 1, 1]
    assert [bool((f or 0) & facts.EPOCH_FIRST) for f in columns["flags"]] == [
        True,
        False,
        False,
    ] * 2
    setup = read(tracer).ranks[0].setup
    assert (setup.batch_size, setup.loader.workers, setup.accumulation) == (2, 0, 1)


def test_a_loader_without_a_length_stays_without_one(make: Any) -> None:
    tracer, *_ = make()
    with tracer:
        assert not hasattr(tracer.batches(x for x in range(3)), "__len__")


def test_evaluation_and_checkpoints_are_no_training_time(make: Any) -> None:
    clocked = Clocked()
    tracer, model, optimizer = make()
    with tracer:
        for batch in tracer.batches(Items(clocked, count=2)):
            with tracer.step():
                update(model, optimizer, batch)
                clocked("other", 3)
            with tracer.evaluating():
                model(batch)
                clocked("evaluation", 5)
            clocked("gap", 2)
            with tracer.checkpointing():
                clocked("checkpoint", 4)
            clocked("gap", 2)
    run = read(tracer)
    check_books(run)
    assert run.ranks[0].columns["forward_calls"] == [1, 1]
    check_lower_bounds(run.ranks[0], clocked)


def test_regions_and_logged_values_reach_the_session_from_anywhere(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for batch in tracer.batches(Items(count=2)):
            with tracer.step():
                with region("augment"):
                    batch = batch + 1
                update(model, optimizer, batch)
                log(loss=torch.tensor(1.5), lr=0.1, odd=float("nan"))
    rank = read(tracer).ranks[0]
    assert [(r.step, r.name, r.calls) for r in rank.regions] == [
        (1, "augment", 1),
        (2, "augment", 1),
    ]
    values = [(s.step, s.name, s.value) for s in rank.scalars]
    assert values[:2] == [(1, "loss", 1.5), (1, "lr", 0.1)]
    assert all(ns is not None and ns > 0 for ns in rank.columns["user_ns"])


def test_regions_and_logs_do_nothing_without_a_session() -> None:
    with region("nothing"):
        log(loss=1)


def test_explicit_marks_need_neither_model_nor_optimizer(tmp_path: Path) -> None:
    clocked = Clocked()
    with trace(run_dir=tmp_path, print_report=False) as tracer:
        for _ in tracer.batches(Items(clocked, count=3)):
            with tracer.step():
                clocked("batch_prep", 2)
                tracer.mark("forward")
                clocked("forward", 3)
                tracer.mark("backward")
                clocked("backward", 4)
                with tracer.phase("optimizer"):
                    clocked("optimizer", 2)
                clocked("backward", 1)  # the mark of before goes on
            clocked("gap", 3)
    run = read(tracer)
    check_books(run)
    assert run.ranks[0].totals.steps == 3
    check_lower_bounds(run.ranks[0], clocked)


def test_recording_stops_after_max_steps_and_training_goes_on(make: Any) -> None:
    tracer, model, optimizer = make(max_steps=2)
    before = torch.autograd.backward
    with tracer:
        for number, batch in enumerate(tracer.batches(Items()), start=1):
            with tracer.step():
                update(model, optimizer, batch)
            assert (torch.autograd.backward is before) is (number >= 2)
    run = read(tracer)
    check_books(run)
    assert run.ranks[0].columns["step"] == [1, 2]
    assert run.status == "completed"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_run_of_very_few_steps_has_a_report(make: Any, count: int) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for batch in tracer.batches(Items(count=count)):
            with tracer.step():
                update(model, optimizer, batch)
    summary = tracer.summary()
    assert summary["counts"]["steps"] == count
    assert summary["verdict"]["outcome"] == "insufficient_data"
    assert tracer.run_folder is not None
    assert (tracer.run_folder / "final_summary.json").is_file()


def test_the_summary_can_be_read_mid_run_and_is_never_frozen(make: Any) -> None:
    tracer, model, optimizer = make()
    counts = []
    with tracer:
        for batch in tracer.batches(Items(count=3)):
            with tracer.step():
                update(model, optimizer, batch)
            summary = tracer.summary()
            counts.append(summary["counts"]["steps"])
            assert summary["run"]["status"] == "running"
            assert all(isinstance(value, (int, float)) for value in summary.flat().values())
    assert counts == [1, 2, 3]
    assert tracer.summary()["run"]["status"] == "completed"


def test_the_span_is_what_a_clock_around_the_loop_sees(make: Any) -> None:
    differences: list[int] = []
    while len(differences) < 6 and min(differences, default=1e6) >= 1e6:
        tracer, model, optimizer = make()
        tracer.start()
        start = time.perf_counter_ns()
        for batch in tracer.batches(Items(count=20)):
            with tracer.step():
                update(model, optimizer, batch)
        end = time.perf_counter_ns()
        tracer.close()
        differences.append(abs(read(tracer).ranks[0].totals.wall_ns - (end - start)))
    assert min(differences) < 1e6


def test_the_step_level_times_waits_and_steps_only(make: Any) -> None:
    tracer, model, optimizer = make(level="step")
    with tracer:
        for batch in tracer.batches(Items(count=4)):
            with tracer.step():
                update(model, optimizer, batch)
    rank = read(tracer).ranks[0]
    assert rank.columns["forward_ns"] == [None] * 4
    assert "level" in rank.unmeasured["forward"]
    assert all(rank.columns["input_wait_ns"])
    assert rank.totals.steps == 4


def test_a_scaler_that_skips_the_update_keeps_the_step_and_says_so(make: Any) -> None:
    tracer, model, optimizer = make()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with tracer:
        for number, batch in enumerate(tracer.batches(Items(count=3))):
            with tracer.step():
                loss = model(batch).mean() * (float("inf") if number == 1 else 1.0)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    rank = read(tracer).ranks[0]
    skipped = [bool((flags or 0) & facts.UPDATE_SKIPPED) for flags in rank.columns["flags"]]
    assert skipped == [False, True, False]
    assert rank.columns["optimizer_calls"] == [1, 0, 1]
    assert rank.totals.updates_skipped == 1
