"""A profiler's trace of a few steps: taken for those alone, changing nothing, and never beside another one."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch.profiler import profile, record_function

from tests.labs.torch_loop import BATCH, Net, sgd
from traintrace import open_run
from traintrace.errors import UsageError
from traintrace.facts import PROFILED, RankFacts
from traintrace_analysis import REQUIRED_COLUMNS, analyse
from traintrace_plain_torch import Tracer, trace
from traintrace_reporting.traces.places import own_traces

STEPS = 10


def traced(folder: Path, **options: Any) -> Tracer:
    return trace(*made(), run_dir=folder, name="run", print_report=False, **options)


def made() -> tuple[Net, torch.optim.SGD]:
    model = Net()
    return model, sgd(model)


def train(folder: Path, model: Any = None, **options: Any) -> list[float]:
    """Train ten steps and give the losses."""
    torch.manual_seed(3)
    net, optimizer = made()
    called, losses = model(net) if model else net, []
    with trace(
        called, optimizer, run_dir=folder, name="run", print_report=False, **options
    ) as tracer:
        for _ in tracer.batches([BATCH] * STEPS):
            with tracer.step():
                loss = called(torch.randn(2, 4)).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    return losses


def recorded(folder: Path) -> RankFacts:
    return open_run(folder / "run").facts(REQUIRED_COLUMNS).ranks[0]


def profiled(rank: RankFacts) -> list[int]:
    flags = zip(rank.columns["step"], rank.columns["flags"], strict=True)
    return [
        step for step, bits in flags if step is not None and bits is not None and bits & PROFILED
    ]


def marks(folder: Path) -> list[str]:
    """Names of the step marks in the run's trace, in order."""
    content = json.loads(gzip.decompress((folder / "run/traces/rank-00000.json.gz").read_bytes()))
    found = [
        (e["ts"], e["name"]) for e in content["traceEvents"] if "traintrace" in str(e.get("name"))
    ]
    return [name for _, name in sorted(found)]


@pytest.fixture(autouse=True)
def no_profiler_is_left() -> Iterator[None]:
    before = torch.autograd.profiler.profile._prepare_trace
    yield
    assert not torch._C._autograd._profiler_enabled()
    assert torch.autograd.profiler.profile._prepare_trace is before


@pytest.mark.parametrize("steps", [(1, 2), (4, 6), (10, 10)])
def test_the_chosen_steps_are_traced_and_flagged(tmp_path: Path, steps: tuple[int, int]) -> None:
    train(tmp_path, profile_steps=steps)
    wanted = list(range(steps[0], steps[1] + 1))
    assert profiled(recorded(tmp_path)) == wanted
    assert marks(tmp_path) == [f"traintrace.step#{step}" for step in wanted]
    assert [path.name for path in (tmp_path / "run/traces").iterdir()] == ["rank-00000.json.gz"]


def test_training_is_the_same_to_the_bit(tmp_path: Path) -> None:
    random.seed(1)
    plain = train(tmp_path / "plain"), torch.rand(2).tolist(), random.random()
    random.seed(1)
    with_profile = (
        train(tmp_path / "profiled", profile_steps=(3, 5)),
        torch.rand(2).tolist(),
        random.random(),
    )
    assert plain == with_profile


def test_what_the_profiler_takes_lies_in_no_step(tmp_path: Path) -> None:
    """kineto#747: a viewer's step included the tool's own export."""
    train(tmp_path, profile_steps=(3, 5))
    rank = recorded(tmp_path)
    own = [span for span in rank.spans if span.account == "callbacks"]
    assert [(span.step, span.inside) for span in own] == [
        (3, False),
        (4, False),
        (5, False),
        (6, False),
    ]
    assert not any(rank.columns["callbacks_ns"])


def test_statistics_leave_the_profiled_steps_out(tmp_path: Path) -> None:
    train(tmp_path, profile_steps=(3, 5))
    analysis = analyse(open_run(tmp_path / "run").facts(REQUIRED_COLUMNS))
    assert analysis.window.steps.tolist() == [1, 2, 7, 8, 9, 10]
    train(tmp_path / "all", profile_steps=(1, STEPS))
    analysis = analyse(open_run(tmp_path / "all/run").facts(REQUIRED_COLUMNS))
    assert analysis.window.steps.tolist() == list(range(1, STEPS + 1))  # there are no others


def test_the_report_finds_the_trace_of_its_run(tmp_path: Path) -> None:
    train(tmp_path, profile_steps=(3, 5))
    traces, notes = own_traces(tmp_path / "run")
    assert notes == []
    found = analyse(open_run(tmp_path / "run").facts(REQUIRED_COLUMNS), traces=traces).communication
    assert found is not None
    assert found.traces is not None
    one = found.traces.traces[0]
    assert (one.rank, one.host_only, one.steps.numbers, one.steps.ours) == (
        0,
        True,
        (3, 4, 5),
        True,
    )
    linear = next(use for use in one.kernels if use.name == "aten::linear")
    assert linear.count == 6


def test_after_the_last_chosen_step_nothing_watches_any_more(tmp_path: Path) -> None:
    with traced(tmp_path, profile_steps=(2, 2)) as tracer:
        session: Any = tracer._session
        before = session.end_step
        for _ in range(3):
            with tracer.step():
                tracer._models[0](BATCH).mean().backward()
                tracer._optimizer.step()
        assert session.end_step != before
        assert session.end_step.__func__ is type(session).end_step


def test_a_profiler_that_is_on_goes_first(tmp_path: Path) -> None:
    with profile() as own:
        train(tmp_path, profile_steps=(3, 5))
    assert any(
        event.key == "aten::linear" and event.count == 2 * STEPS for event in own.key_averages()
    )
    rank = recorded(tmp_path)
    assert "another profiler was on" in rank.unmeasured["profile"]
    assert profiled(rank) == []
    assert not (tmp_path / "run/traces").exists()


def test_a_profiler_that_begins_meanwhile_displaces_ours(tmp_path: Path) -> None:
    own = profile()
    with traced(tmp_path, profile_steps=(2, 8)) as tracer:
        for number in range(STEPS):
            with tracer.step():
                if number == 4:
                    own.start()
                with record_function("mine"):
                    tracer._models[0](BATCH).mean().backward()
                tracer._optimizer.step()
                if number == 6:
                    own.stop()
    assert next(event for event in own.key_averages() if event.key == "mine").count == 3
    rank = recorded(tmp_path)
    assert "ours ended for it" in rank.unmeasured["profile"]
    assert profiled(rank) == [2, 3, 4]
    assert not (tmp_path / "run/traces").exists()


def test_a_run_that_ends_early_keeps_what_was_traced(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="lost"),
        traced(tmp_path, profile_steps=(2, 100)) as tracer,
    ):
        for number in range(5):
            with tracer.step():
                tracer._models[0](BATCH).mean().backward()
                tracer._optimizer.step()
                if number == 4:
                    raise RuntimeError("lost")
    assert marks(tmp_path) == [f"traintrace.step#{step}" for step in (2, 3, 4, 5)]


def test_steps_can_be_chosen_while_the_run_goes_on(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        for number in range(8):
            if number == 3:
                tracer.profile(steps=(6, 7))
                tracer.profile(steps=(8, 8))  # one at a time
            with tracer.step():
                tracer._models[0](BATCH).mean().backward()
                tracer._optimizer.step()
        with pytest.raises(UsageError, match="steps"):
            tracer.profile(steps=(5, 2))
        tracer.profile(steps=(1, 2))
    assert marks(tmp_path) == ["traintrace.step#6", "traintrace.step#7"]
    assert "had begun" in recorded(tmp_path).unmeasured["profile"]


def test_a_compiled_model_is_not_compiled_again(tmp_path: Path) -> None:
    def compiled(net: Any) -> Any:
        return torch.compile(net, backend="eager")

    counts = []
    for options in ({}, {"profile_steps": (3, 5)}):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        losses = train(tmp_path / str(len(options)), compiled, **options)
        counters = torch._dynamo.utils.counters
        counts.append((losses, dict(counters["stats"]), dict(counters["graph_break"])))
    torch._dynamo.reset()
    assert counts[0] == counts[1]


def test_a_trace_that_cannot_be_written_loses_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traintrace.registry import REGISTRY

    monkeypatch.setattr(REGISTRY, "raise_faults", False)
    with (
        pytest.warns(UserWarning, match="the trace of the profiled steps"),
        traced(tmp_path, profile_steps=(2, 3)) as tracer,
    ):
        folder = tracer.run_folder
        assert folder is not None
        (folder / "traces").write_text("in the way", encoding="utf-8")
        for _ in range(5):
            with tracer.step():
                tracer._models[0](BATCH).mean().backward()
                tracer._optimizer.step()
    assert recorded(tmp_path).totals.steps == 5


@pytest.mark.parametrize("first", [2, 4, 6])
def test_a_profiler_with_a_schedule_gets_all_its_steps(tmp_path: Path, first: int) -> None:
    """Lightning's PyTorchProfiler: while such a one warms up, torch does not say that it is on."""
    schedule = torch.profiler.schedule(wait=2, warmup=3, active=2, repeat=1)
    with profile(schedule=schedule) as own, traced(tmp_path, profile_steps=(first, 9)) as tracer:
        for _ in range(STEPS):
            with tracer.step():
                with record_function("mine"):
                    tracer._models[0](BATCH).mean().backward()
                tracer._optimizer.step()
            own.step()
    assert next(event for event in own.key_averages() if event.key == "mine").count == 2
    assert "another profiler" in recorded(tmp_path).unmeasured["profile"]
