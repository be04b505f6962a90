"""Loops that people really write: updates in odd places, several loaders, odd batches, odd endings."""

import copy
import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from traintrace import TraintraceWarning, facts, open_run
from traintrace.ports import Ports
from traintrace_plain_torch import Tracer, trace


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


BATCHES = [torch.ones(2, 4)] * 12


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., tuple[Tracer, Net, torch.optim.Optimizer]]:
    def make(optimizer_class: Any = torch.optim.SGD, **options: Any) -> Any:
        model = Net()
        optimizer = optimizer_class(model.parameters(), lr=0.1)
        options = {"run_dir": tmp_path / "runs", "print_report": False, **options}
        return trace(model, optimizer, **options), model, optimizer

    return make


def rank_of(tracer: Tracer, *columns: str) -> facts.RankFacts:
    assert tracer.run_folder is not None
    rank = open_run(tracer.run_folder).facts(columns or ["micro_batches"]).ranks[0]
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
    return rank


@pytest.mark.parametrize("accumulation", [1, 4])
def test_an_update_after_the_step_block_belongs_to_that_step(make: Any, accumulation: int) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for number, batch in enumerate(tracer.batches(BATCHES), start=1):
            with tracer.step():
                model(batch).mean().backward()
            if number % accumulation == 0:
                optimizer.step()
    assert rank_of(tracer).columns["micro_batches"] == [accumulation] * (12 // accumulation)
    assert rank_of(tracer).totals.steps_aborted == 0


def test_an_update_after_a_step_block_without_batches_belongs_to_it_too(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for batch in BATCHES:
            with tracer.step():
                model(batch).mean().backward()
            optimizer.step()
    assert rank_of(tracer, "optimizer_calls").columns["optimizer_calls"] == [1] * 12


def test_two_updates_with_a_fetch_between_them_inside_one_block_are_one_step(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        batches = iter(tracer.batches(BATCHES))
        for _ in range(6):
            with tracer.step():
                for _ in range(2):  # discriminator, then generator
                    model(next(batches)).mean().backward()
                    optimizer.step()
    assert rank_of(tracer).columns["micro_batches"] == [2] * 6


def test_an_update_that_runs_no_hook_is_seen_by_what_it_changes(make: Any) -> None:
    tracer, model, _ = make()
    with tracer:
        for number, batch in enumerate(tracer.batches(BATCHES), start=1):
            with tracer.step():
                model(batch).mean().backward()
                if number % 2 == 0:
                    with torch.no_grad():  # what a compiled optimizer step leaves behind
                        for parameter in model.parameters():
                            parameter -= 0.1
    rank = rank_of(tracer, "micro_batches", "optimizer_ns")
    assert rank.columns["micro_batches"] == [2] * 6
    assert rank.columns["optimizer_ns"] == [None] * 6


def test_a_loop_without_batches_or_steps_says_what_is_missing(make: Any) -> None:
    tracer, model, optimizer = make()
    with pytest.warns(TraintraceWarning, match=r"tracer\.batches"), tracer:
        for batch in BATCHES:
            model(batch).mean().backward()
            optimizer.step()
    assert rank_of(tracer).totals.steps == 0


def test_step_blocks_that_never_see_an_update_say_so(make: Any) -> None:
    tracer, model, _ = make()
    with pytest.warns(TraintraceWarning, match="no optimizer step"), tracer:
        for batch in tracer.batches(BATCHES):
            with tracer.step():
                model(batch).mean().backward()
    assert rank_of(tracer).totals.steps == 0


@pytest.mark.parametrize(("fused", "skipped"), [(False, True), (True, None)])
def test_a_fused_optimizer_does_not_tell_whether_it_skipped(
    make: Any, fused: bool, skipped: Any
) -> None:
    tracer, model, optimizer = make(
        lambda parameters, lr: torch.optim.Adam(parameters, lr, fused=fused)
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with tracer:
        for batch in tracer.batches(BATCHES[:1]):
            with tracer.step():
                scaler.scale(model(batch).mean() * float("inf")).backward()
                scaler.step(optimizer)
                scaler.update()
    flags = rank_of(tracer, "flags").columns["flags"][0] or 0
    known = bool(flags & facts.UPDATE_SKIPPED_KNOWN)
    assert (bool(flags & facts.UPDATE_SKIPPED) if known else None) is skipped


def test_loaders_side_by_side_feed_one_micro_batch(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        first, second = tracer.batches(BATCHES), tracer.batches([torch.ones(7, 4)] * 10)
        for one, _ in zip(first, second, strict=False):
            with tracer.step():
                model(one).mean().backward()
                optimizer.step()
    rank = rank_of(tracer, "micro_batches", "samples", "input_wait_calls", "epoch")
    assert rank.columns["micro_batches"] == [1] * 10
    assert rank.columns["samples"] == [2] * 10
    assert rank.columns["input_wait_calls"] == [2] * 10
    assert set(rank.columns["epoch"]) == {0}


def test_fetching_ahead_inside_the_step_counts_every_batch_once(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        batches = iter(tracer.batches(BATCHES))
        ahead = next(batches)
        while ahead is not None:
            with tracer.step():
                batch, ahead = ahead, next(batches, None)
                model(batch).mean().backward()
                optimizer.step()
    rank = rank_of(tracer)
    assert rank.totals.steps == 12
    assert rank.totals.micro_batches == 12


def test_a_validation_loader_inside_an_evaluation_is_no_training_data(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for batch in tracer.batches(BATCHES[:4]):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
            with tracer.evaluating():
                for other in tracer.batches(BATCHES[:3]):
                    model(other)
    rank = rank_of(tracer, "micro_batches", "epoch")
    assert rank.columns == {"micro_batches": [1] * 4, "epoch": [0] * 4}
    assert rank.totals.samples == 8


@pytest.mark.parametrize(
    ("collate", "samples"),
    [
        (lambda items: tuple(zip(*items, strict=True)), 8),  # (images, targets), each a tuple
        (lambda items: [image for image, _ in items], 8),  # one image a sample
        (None, 8),  # the default: one tensor a field
    ],
)
def test_samples_are_samples_however_the_batch_is_laid_out(
    make: Any, collate: Any, samples: int
) -> None:
    tracer, model, optimizer = make()
    data: Any = [(torch.ones(3, 5, 5), torch.ones(2)) for _ in range(8)]
    with tracer:
        for _ in tracer.batches(DataLoader(data, batch_size=4, collate_fn=collate)):
            with tracer.step():
                model(torch.ones(1, 4)).mean().backward()
                optimizer.step()
    assert rank_of(tracer).totals.samples == samples


@pytest.mark.parametrize(
    "batches",
    [
        [1, 2],
        ["a", "b"],
        [None, None],
        [[], []],
        [(), ()],
        [torch.tensor(1.0)] * 2,
        [{}, {}],
        [object()] * 2,
    ],
    ids=lambda batches: type(batches[0]).__name__,
)
def test_a_batch_of_any_kind_passes_through(make: Any, batches: Any) -> None:
    tracer, model, optimizer = make()
    seen = []
    with tracer:
        for batch in tracer.batches(batches):
            with tracer.step():
                seen.append(batch)
                model(torch.ones(1, 4)).mean().backward()
                optimizer.step()
    assert all(one is other for one, other in zip(seen, batches, strict=True))
    assert rank_of(tracer).totals.samples is None


def test_an_iterator_stays_an_iterator(make: Any) -> None:
    tracer, *_ = make()
    with tracer:
        batches: Any = tracer.batches(iter(BATCHES))
        assert next(batches) is BATCHES[0]
        assert len(list(batches)) == 11


def test_a_wrapped_loader_can_be_copied(make: Any) -> None:
    tracer, *_ = make()
    loader: Any = DataLoader(BATCHES)  # type: ignore[arg-type]
    with tracer:
        twin = copy.copy(tracer.batches(loader))
        assert twin.batch_size == 1
        with pytest.raises(AttributeError):
            _ = twin.no_such_attribute


def test_a_lazy_model_is_traced(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(1))
    with trace(model, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches(BATCHES):
            with tracer.step():
                model(batch).mean().backward()
    rank = rank_of(tracer)
    assert rank.totals.steps == 12
    assert rank.setup.parameter_count is None


def test_the_traced_model_travels_to_other_processes(make: Any) -> None:
    class Local(Net):
        pass

    model = Local()
    with (
        pytest.warns(TraintraceWarning),
        trace(model, run_dir=make()[0]._options.run_dir, print_report=False),
    ):
        text = cloudpickle.dumps(model)
    assert cloudpickle.loads(text)(torch.ones(1, 4)).shape == (1, 1)


def test_a_relative_run_folder_survives_a_change_of_directory(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tracer, model, optimizer = make(run_dir="runs")
    with tracer:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        for batch in tracer.batches(BATCHES):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
    assert tracer.summary()["run"]["status"] == "completed"
    assert (tmp_path / "runs" / tracer.run_folder.name / "final_summary.json").is_file()


def test_one_tracer_used_twice_makes_two_clean_runs(make: Any) -> None:
    tracer, model, optimizer = make()
    folders = []
    for count in (3, 5):
        with tracer:
            for batch in tracer.batches(BATCHES[:count]):
                with tracer.step():
                    model(batch).mean().backward()
                    optimizer.step()
        assert rank_of(tracer).totals.steps == count
        folders.append(tracer.run_folder)
    assert folders[0] != folders[1]


def test_blocks_entered_on_another_thread_are_not_training_time(make: Any) -> None:
    tracer, model, optimizer = make()

    def elsewhere() -> None:
        for _ in range(500):
            with tracer.evaluating(), tracer.phase("checkpoint"), tracer.step():
                tracer.mark("forward")

    with tracer:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        for batch in tracer.batches(BATCHES):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
        thread.join()
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 12
    assert not {"evaluation", "checkpoint"} & set(rank.totals.account_ns)


@pytest.mark.usefixtures("faults_are_reported")
def test_a_memory_reader_that_fails_costs_the_peaks_and_nothing_else(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        lifetime_peak_bytes = 0

        def open_step(self) -> None:
            raise RuntimeError("this allocator does not support resetting")

        def read(self, capture: Any) -> None:
            raise RuntimeError("nor reading")

    original = Ports.__init__

    def with_broken_memory(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **{**options, "memory": Broken()})

    monkeypatch.setattr(Ports, "__init__", with_broken_memory)
    tracer, model, optimizer = make()
    with pytest.warns(TraintraceWarning, match="memory peaks") as caught, tracer:
        for batch in tracer.batches(BATCHES):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
    assert len(caught) == 1
    rank = rank_of(tracer)
    assert rank.totals.steps == 12
    assert "allocator" in rank.unmeasured["peak_memory"]


class _Interrupted(BaseException):
    pass


class _Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return itertools.repeat(torch.ones(2, 4))


@pytest.mark.parametrize("form", ["named", "untouched"])
def test_an_exception_from_a_signal_at_any_line_of_ours_costs_at_most_its_own_step(
    make: Any, form: str
) -> None:
    """Raise at the n-th line that the tracer runs in step n, as Ctrl-C may, and go on training."""
    tracer, model, optimizer = make()
    countdown = [0]
    swept = threading.current_thread()

    def on_line(frame: Any, event: str, argument: Any) -> Any:
        if threading.current_thread() is not swept:
            return None
        name = frame.f_code.co_filename
        if "traintrace" not in name or "tests" in name or "contextlib" in name:
            return None
        if event == "line":
            countdown[0] -= 1
            if countdown[0] == 0:
                raise _Interrupted
        return on_line

    def step(batches: Any) -> None:
        batch = next(batches)
        with tracer.step() if form == "named" else nullcontext():
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    interrupted = clean = 0
    with tracer:
        loader: Any = DataLoader(_Endless(), batch_size=None)
        batches = iter(tracer.batches(loader) if form == "named" else loader)
        step(batches)
        for line in range(1, 400):
            countdown[0] = line
            previous = sys.gettrace()
            sys.settrace(on_line)
            try:
                step(batches)
                clean += 1
            except _Interrupted:
                interrupted += 1
            finally:
                sys.settrace(previous)
            if countdown[0] > 0:
                break  # the sweep has passed the last line of a step
        for _ in range(30):
            step(batches)
    rank = rank_of(tracer, "micro_batches", "forward_calls", "backward_calls", "optimizer_calls")
    assert interrupted > 40
    # Without blocks a request ends the step before, which an interrupt of that request may cost.
    sure = 30 + clean + (form == "named")
    assert sure <= rank.totals.steps <= sure + 1 + interrupted
    for name in ("micro_batches", "forward_calls", "backward_calls", "optimizer_calls"):
        assert rank.columns[name][-30:] == [1] * 30, name


def test_a_model_of_another_class_hierarchy_is_left_alone(make: Any) -> None:
    """Two traced runs one after the other, of a class and of its subclass, leave no patch behind."""

    class Child(Net):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraintraceWarning)
        for cls in (Net, Child, Net):
            model = cls()
            with trace(model, run_dir=make()[0]._options.run_dir, print_report=False):
                model(torch.ones(1, 4))
    assert "__call__" not in vars(Net)
    assert "__call__" not in vars(Child)
