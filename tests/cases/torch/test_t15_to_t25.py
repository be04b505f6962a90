"""T15 to T25: pickles, many calls a step, what the tracer itself costs, and clocks that jump."""

import copy
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.labs.cores import waited_for_a_core_ns
from tests.labs.torch_loop import (
    BATCH,
    Net,
    Recorded,
    Slow,
    Truth,
    saved_and_loaded,
    sgd,
    trained,
    update,
)
from traintrace.store.writer import RankWriter
from traintrace_plain_torch import trace
from traintrace_reporting import run_words

MS = 1_000_000


def test_t15_the_whole_model_saves_and_copies_in_the_middle_of_a_traced_run(tmp_path: Path) -> None:
    """PT#1148, sagemaker-debugger#266: a local hook breaks pickling, and copies carry it on."""
    model, others = Net(), list[nn.Module]()
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        if not others:
            others.extend([saved_and_loaded(model), copy.deepcopy(model)])
        for other in others:
            assert other(batch).requires_grad
        update(model, optimizer)

    run = trained(tmp_path, model, optimizer, step, 6)
    assert run.phase_calls() == ([1] * 6, [1] * 6, [1] * 6)
    assert all(vars(other).keys() == vars(model).keys() for other in others)


def test_t16_five_calls_of_two_networks_and_two_updates_are_one_step(tmp_path: Path) -> None:
    """PL#19310: networks are called three and two times in one step of a GAN."""
    truth = Truth()
    generator, critic = Net(truth, forward_ms=4), Net(truth, forward_ms=4)
    generator.second = nn.Linear(4, 4)
    optimizers = sgd(generator), sgd(critic)

    def step(batch: torch.Tensor) -> None:
        fake = generator(batch)
        (critic(fake.detach()).mean() - critic(batch).mean()).backward()
        optimizers[1].step()
        critic(generator(batch)).mean().backward()
        optimizers[0].step()

    both = nn.ModuleList([generator, critic])
    run = trained(tmp_path, both, optimizers[0], step, 4)
    assert run.phase_calls() == ([5] * 4, [2] * 4, [2] * 4)
    assert run["micro_batches"] == [1] * 4
    assert run.account_ns["forward"] >= truth.ns["forward"] >= 4 * 5 * 4 * MS


@pytest.mark.parametrize("workers", [0, 1])
def test_t17_waiting_for_a_loader_is_seen_without_workers_too(tmp_path: Path, workers: int) -> None:
    """pytorch/kineto#844, tensorboard#6136: the data time read zero."""

    class Items(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.005)
            return torch.ones(4)

    loader: Any = DataLoader(Items(), batch_size=4, num_workers=workers)
    model = Net()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), loader)
    # The first batch takes four items of 5 ms either way; later ones may be ready before.
    assert run["input_wait_ns"][0] >= 20 * MS
    assert all(ns >= (20 * MS if not workers else 1) for ns in run["input_wait_ns"])
    assert run.summary["step_time"]["metrics"]["input_wait"]["mean"] > 0


def test_t18_the_tracers_own_work_is_in_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytorch/kineto#747: the steps of the trace held the tool's own export."""
    flushes: list[int] = []
    write = RankWriter.write

    def write_slowly(*arguments: Any, **options: Any) -> None:
        flushes.append(1)
        time.sleep(0.1)
        write(*arguments, **options)

    monkeypatch.setattr(RankWriter, "write", write_slowly)
    monkeypatch.setattr("traintrace_plain_torch.seams._report", lambda *_: time.sleep(0.3))
    beyond_ms = float("inf")
    for _ in range(3):  # a loaded machine may stretch a run, not every time
        flushes.clear()
        beyond_ms = min(beyond_ms, _time_beyond_the_steps_ms(tmp_path, 40))
        assert len(flushes) >= 3, "nothing was written while training went on"
        if beyond_ms < 50:
            return
    # A flush takes 100 ms and the report 300.
    raise AssertionError(f"{beyond_ms} ms of the span are in no step of the loop")


def _time_beyond_the_steps_ms(tmp_path: Path, count: int) -> float:
    """Train; give how much longer the span is than the loop's own clock around its steps.

    What others kept this thread from the cores is left out.
    """
    model, spent = Net(), list[int]()
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        start = time.perf_counter_ns()
        update(model, optimizer)
        time.sleep(0.015)
        spent.append(time.perf_counter_ns() - start)

    waited_ns = waited_for_a_core_ns()
    run = trained(tmp_path, model, optimizer, step, count)
    waited_ns = waited_for_a_core_ns() - waited_ns
    for whole, real in zip(run["duration_ns"], spent, strict=True):
        assert whole >= real
    return (run.totals.wall_ns - sum(spent) - waited_ns) / MS


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_t19_a_run_of_a_few_steps_has_a_report_that_forces_no_verdict(
    tmp_path: Path, steps: int
) -> None:
    """PT#91682, pytorch/kineto#774: nothing was saved of fewer steps than the schedule."""
    model = Net()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), steps)
    assert (run.folder / "final_summary.json").is_file()
    assert (run.folder / "final_summary.txt").is_file()
    assert run.summary["counts"]["steps"] == steps
    verdict = run.summary["verdict"]
    assert (verdict["kind"], verdict["outcome"]) == ("TOO_FEW_STEPS", "insufficient_data")
    assert verdict["cost_s"] is None


def test_t20_what_tracing_cost_is_measured_and_printed(tmp_path: Path) -> None:
    """dlrm#197, PT#76281: steps of 23 ms became 43, and nothing said so."""
    model = Net()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), 60)
    overhead = run.summary["overhead"]
    price = overhead["per_step_us"]
    assert 0 < price["low"] <= price["estimate"] <= price["high"]
    assert overhead["transitions_per_step"] == run.totals.transitions / 60 >= 8
    assert overhead["share"] > 0
    assert overhead["setup_s"] > 0
    text = (run.folder / "final_summary.txt").read_text("utf-8")
    assert run_words.tracing(run.summary).split(" (")[0] in " ".join(text.split())
    assert "us a step" in text


@pytest.mark.parametrize("place", ["region", "unmarked", "after the step"])
def test_t24_what_callbacks_take_is_a_line_of_its_own(tmp_path: Path, place: str) -> None:
    """pytorch/ignite#1346, #1104, #63: the time of handlers was hidden in totals."""
    truth, model = Truth(), Net()
    optimizer = sgd(model)
    with trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches([BATCH] * 4):
            with tracer.step():
                update(model, optimizer, batch)
                if place == "region":
                    with tracer.region("on_batch_end"):
                        truth.sleep("user", 12)
                elif place == "unmarked":
                    truth.sleep("other", 12)
            if place == "after the step":
                truth.sleep("gap", 12)
    run = Recorded(tracer)
    ((account, spent),) = truth.ns.items()
    in_the_end = run.account_ns["shutdown"] if account == "gap" else 0
    assert run.account_ns[account] + in_the_end >= spent
    regions = {(region.name, region.calls) for region in run.rank.regions}
    assert regions == ({("on_batch_end", 1)} if place == "region" else set())


def test_t25_a_wall_clock_that_jumps_back_makes_no_time_negative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mosaicml/composer#1123: a speed monitor printed negative durations."""
    truth, model = Truth(), Net()
    optimizer = sgd(model)
    for name, hour in (("time", 3600), ("time_ns", 3600 * 10**9)):
        monkeypatch.setattr(time, name, _jumping(getattr(time, name), hour))
    batches = Slow(truth, 5, 6)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), batches)
    for name, values in run.rank.columns.items():
        assert all(value is None or value >= 0 for value in values), name
    assert all(ns >= 0 for ns in run.account_ns.values())
    assert run.account_ns["input_wait"] >= truth.ns["input_wait"]
    assert run.summary["run"]["duration_s"] > 0
    assert 0 < run.totals.wall_ns < 60 * 10**9


def _jumping(clock: Callable[[], Any], jump: int) -> Callable[[], Any]:
    """Give a clock that goes back by `jump` more at every other reading."""
    readings = [0]

    def read() -> Any:
        readings[0] += 1
        return clock() - jump * (readings[0] // 2)

    return functools.wraps(clock)(read)
