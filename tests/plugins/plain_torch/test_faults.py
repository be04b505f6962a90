"""Bad input and faults of our own: training's result and exit code stay, one warning says what is lost."""

import json
import signal
import sqlite3
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import traintrace_plain_torch.loop as loop_module
from tests.labs.forked import run_each
from traintrace import TraintraceWarning, UsageError, open_run
from traintrace.recording.drain import Drain
from traintrace.session import Session
from traintrace_plain_torch import Tracer, trace
from traintrace_reporting.cli import main


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., tuple[Tracer, Net, torch.optim.Optimizer]]:
    def make(**options: Any) -> tuple[Tracer, Net, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        options = {"run_dir": tmp_path / "runs", "print_report": False, **options}
        return trace(model, optimizer, **options), model, optimizer

    return make


def train(
    tracer: Tracer, model: Net, optimizer: torch.optim.Optimizer, steps: int = 4
) -> list[float]:
    losses = []
    with tracer:
        for batch in tracer.batches([torch.full((2, 4), float(i)) for i in range(steps)]):
            with tracer.step():
                loss = model(batch).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    return losses


def ours(caught: Any) -> list[str]:
    return [str(w.message) for w in caught if issubclass(w.category, TraintraceWarning)]


def test_an_unwritable_run_folder_gives_one_warning_and_a_report_elsewhere(
    make: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tracer, model, optimizer = make(run_dir=tmp_path / "file")
        train(tracer, model, optimizer)
    assert len(ours(caught)) == 1
    assert tracer.run_folder is not None
    assert str(tracer.run_folder) in ours(caught)[0]
    assert (
        json.loads((tracer.run_folder / "final_summary.json").read_text("utf-8"))["counts"]["steps"]
        == 4
    )


@pytest.mark.usefixtures("faults_are_reported")
def test_a_disk_that_fills_during_training_still_gives_a_whole_report(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Drain._write

    def fill(self: Drain, *arguments: Any, **options: Any) -> None:
        writer = self._writer
        if writer.fault is None:
            pages = writer.run("PRAGMA page_count")[0][0]
            writer.run(f"PRAGMA max_page_count = {pages}")
        original(self, *arguments, **options)

    monkeypatch.setattr(Drain, "_write", fill)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tracer, model, optimizer = make()
        losses = train(tracer, model, optimizer, steps=600)
    assert len(losses) == 600
    assert len(ours(caught)) == 1
    assert "in memory" in ours(caught)[0]
    assert tracer.run_folder is not None
    summary = json.loads((tracer.run_folder / "final_summary.json").read_text("utf-8"))
    assert summary["counts"]["steps"] == 600


def test_a_taken_name_gets_a_number_and_one_warning(make: Any) -> None:
    train(*make(name="mine"))
    with pytest.warns(TraintraceWarning, match="taken") as caught:
        tracer, model, optimizer = make(name="mine")
        train(tracer, model, optimizer)
    assert len(caught) == 1
    assert tracer.run_folder is not None
    assert tracer.run_folder.name == "mine-2"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("bad batch"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(3), "failed"),
    ],
)
def test_an_exception_in_step_three_passes_unchanged_and_the_report_says_so(
    make: Any, error: BaseException, status: str
) -> None:
    tracer, model, optimizer = make()
    with pytest.raises(type(error)) as caught:
        with tracer:
            for number, batch in enumerate(tracer.batches([torch.ones(2, 4)] * 5), start=1):
                with tracer.step():
                    model(batch).mean().backward()
                    if number == 3:
                        raise error
                    optimizer.step()
    assert caught.value is error
    summary = tracer.summary()
    assert summary["run"]["status"] == status
    assert (summary["counts"]["steps"], summary["counts"]["steps_aborted"]) == (2, 1)
    run = open_run(tracer.run_folder).facts(["step"])
    assert (
        next(event.detail for event in run.ranks[0].events if event.kind == "exception")
        == type(error).__name__
    )
    assert sum(run.ranks[0].totals.account_ns.values()) == run.ranks[0].totals.wall_ns


def test_an_exception_that_the_loop_catches_aborts_its_step_alone(make: Any) -> None:
    tracer, model, optimizer = make()
    with tracer:
        for number, batch in enumerate(tracer.batches([torch.ones(2, 4)] * 4)):
            try:
                with tracer.step():
                    model(batch).mean().backward()
                    if number == 1:
                        raise RuntimeError("out of memory")
                    optimizer.step()
            except RuntimeError:
                continue
    summary = tracer.summary()
    assert summary["run"]["status"] == "completed"
    assert (summary["counts"]["steps"], summary["counts"]["steps_aborted"]) == (3, 1)


def test_a_nested_trace_stays_passive_with_one_warning(make: Any) -> None:
    outer, model, optimizer = make(name="outer")
    with outer:
        with pytest.warns(TraintraceWarning, match="active"):
            inner, *_ = make(name="inner")
            with inner:
                assert inner.batches([1]) == [1]
        for batch in outer.batches([torch.ones(2, 4)] * 2):
            with outer.step():
                model(batch).mean().backward()
                optimizer.step()
    assert inner.run_folder is None
    assert inner.summary() == {}
    assert outer.summary()["counts"]["steps"] == 2


ENTRIES = [
    (loop_module, "open_session", 0),
    (Session, "begin", 0),
    (loop_module, "describe_loader", 4),
    ("traintrace.pytorch.sizes", "SizeReader.read", 4),
    (Session, "log", 4),
    (Drain, "flush", 4),
    (Drain, "close", 4),
    ("traintrace_reporting.finish", "summarise_run", 4),
    ("traintrace.runs.started", "StartedRun.finish", 4),
]


@pytest.mark.usefixtures("faults_are_reported")
@pytest.mark.parametrize(
    ("place", "name", "steps"), ENTRIES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_a_fault_of_ours_changes_nothing_and_is_reported_once(
    make: Any, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, steps: int
) -> None:
    from traintrace import log

    plain = train(*make(enabled=False))

    def broken(*arguments: Any, **options: Any) -> Any:
        raise ZeroDivisionError("injected")

    target = place if not isinstance(place, str) else __import__(place, fromlist=["x"])
    for part in name.split(".")[:-1]:
        target = getattr(target, part)
    monkeypatch.setattr(target, name.rpartition(".")[2], broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tracer, model, optimizer = make()
        losses = []
        with tracer:
            for (batch,) in tracer.batches([(torch.full((2, 4), float(i)),) for i in range(4)]):
                with tracer.step():
                    loss = model(batch).square().mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    log(loss=loss)
                    losses.append(loss.item())
            if name == "flush":
                time.sleep(0.7)
    assert losses == plain
    messages = ours(caught)
    assert len(messages) == 1, messages
    assert "injected" in messages[0]
    assert "lost: " in messages[0]
    assert "__call__" not in vars(Net)


@pytest.mark.usefixtures("faults_are_reported")
def test_a_warning_that_the_user_turned_into_an_error_does_not_stop_training(make: Any) -> None:
    train(*make(name="mine"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(train(*make(name="mine"))) == 4


def test_impossible_options_are_refused_with_the_option_named(tmp_path: Path) -> None:
    for options in ({"level": "deep"}, {"max_steps": 0}, {"warmup_steps": -1}):
        with pytest.raises(UsageError, match=next(iter(options))):
            trace(run_dir=tmp_path, **options)


ENDINGS = {
    "raises": ("raise ValueError('x')", 1),
    "exits-7": ("sys.exit(7)", 7),
    "exits-0": ("sys.exit(0)", 0),
    "breaks": ("break", 0),
}
SCRIPT = """
    from traintrace_plain_torch import trace

    class Net(torch.nn.Linear):
        pass

    model = Net(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trace(model, optimizer, run_dir=folder, name="run") as tracer:
        for number, batch in enumerate(tracer.batches(torch.ones(100_000, 2, 4))):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
            {then}
"""


def test_the_exit_code_of_training_is_its_own(tmp_path: Path) -> None:
    then = "".join(
        f"""
            if number == 50 and folder.endswith("{name}"):
                {line}"""
        for name, (line, _) in ENDINGS.items()
    )
    for ended in run_each(tmp_path, SCRIPT.replace("{then}", then.strip()), [*ENDINGS]):
        _, code = ENDINGS[ended.folder.name]
        assert ended.code == code, ended.error
        summary = json.loads((ended.folder / "run" / "final_summary.json").read_text("utf-8"))
        assert summary["run"]["status"] == ("failed" if code else "completed")
        assert "Where the time went" in ended.error
        assert ("ValueError: x" in ended.error) is (ended.folder.name == "raises")


def test_after_sigkill_every_step_older_than_a_second_is_readable(tmp_path: Path) -> None:
    late_ns: list[int] = []
    while (
        len(late_ns) < 3 and min(late_ns, default=10**9) >= 10**9
    ):  # a busy machine may stop the drain
        late_ns.append(_killed(tmp_path / str(len(late_ns))))
    assert min(late_ns) < 10**9


def _killed(folder: Path) -> int:
    """Let training kill itself, read what is left, and give how old the last step was then [ns]."""
    then = """
            time.sleep(0.005)
            if number == 50:
                until = time.monotonic() + 1.8
            if number > 50 and time.monotonic() > until:
                with open(folder + "/killed", "w") as file:
                    file.write(str(time.time_ns()))
                os.kill(os.getpid(), 9)"""
    folder.mkdir()
    (ended,) = run_each(folder, SCRIPT.replace("{then}", then.strip()), ["killed"])
    assert ended.code == -signal.SIGKILL
    run = open_run(ended.folder / "run").facts(["step", "start_ns", "duration_ns"])
    columns = run.ranks[0].columns
    ends = [
        (start or 0) + (length or 0)
        for start, length in zip(columns["start_ns"], columns["duration_ns"], strict=True)
    ]
    assert columns["step"] == list(range(1, len(ends) + 1))
    assert len(ends) > 60
    totals = run.ranks[0].totals
    assert sum(totals.account_ns.values()) == totals.wall_ns
    report = CliRunner().invoke(main, ["report", str(ended.folder / "run")])
    assert report.exit_code == 0, report.output
    assert "step" in report.output
    return int((ended.folder / "killed").read_text("utf-8")) - ends[-1]


def test_a_rank_file_is_an_ordinary_database_at_the_end(make: Any) -> None:
    tracer, model, optimizer = make()
    train(tracer, model, optimizer)
    assert tracer.run_folder is not None
    files = [file.name for file in (tracer.run_folder / "ranks").iterdir()]
    assert files == ["rank-00000.sqlite"]
    connection = sqlite3.connect(tracer.run_folder / "ranks" / files[0])
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    connection.close()
