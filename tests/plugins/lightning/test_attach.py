"""What `attach` gives a Trainer that names no callback, and what automatic tracing leaves to it."""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.labs.lightning import Lab
from traintrace import TraintraceWarning, open_run
from traintrace.launch.parentdeath import name_of
from traintrace.launch.plan import WORKER
from traintrace.options import TraceOptions
from traintrace.registry import REGISTRY
from traintrace.runs.manifest import Manifest
from traintrace_lightning import children
from traintrace_lightning.attach import attach
from traintrace_plain_torch.attach import attach as attach_plain

OPTIONS = {"level": "host", "max_steps": 3, "interval_s": 0.5, "retention_steps": 7}


@pytest.fixture
def attached(lab: Lab) -> Iterator[Lab]:
    """What `traintrace run` attaches to a script that imports torch and Lightning."""
    options = TraceOptions(run_dir=lab.folder / "runs", print_report=False, **OPTIONS)  # type: ignore[arg-type]
    undo = [attach_plain(options), attach(options)]
    yield lab
    for each in undo:
        each()


def runs_of(lab: Lab) -> list[Any]:
    folder = lab.folder / "runs"
    return [*folder.iterdir()] if folder.exists() else []


def test_a_fit_is_one_run_with_the_launchers_options(attached: Lab) -> None:
    trainer = attached.trainer()
    trainer.fit(attached.Model(), attached.loader(6, 0))
    (run,) = runs_of(attached)
    assert Manifest.read(run).plugin == "lightning"
    rank = open_run(run).facts([]).ranks[0]
    assert (rank.totals.steps, rank.level) == (3, "host")
    session = trainer.callbacks[0]._session
    assert session.options.interval_s == 0.5
    assert session.options.retention_steps == 7


def test_a_hand_written_loop_before_the_fit_is_a_run_of_its_own(attached: Lab) -> None:
    model = attached.Model()
    optimizer = model.configure_optimizers()
    for batch in attached.loader(2, 0):
        model.training_step(batch, 0).backward()
        optimizer.step()
    attached.trainer().fit(model, attached.loader(2, 0))
    assert sorted(Manifest.read(run).plugin for run in runs_of(attached)) == [
        "lightning",
        "plain_torch",
    ]


def test_a_callback_that_is_turned_off_wins(attached: Lab) -> None:
    off = attached.callback(enabled=False)
    attached.trainer(off).fit(attached.Model(), attached.loader(3, 0))
    assert runs_of(attached) == []


@pytest.mark.parametrize("package", ["lightning.fabric", "lightning.pytorch"])
def test_ranks_that_lightning_starts_run_through_the_worker(lab: Lab, package: str) -> None:
    import_module(package)
    module = sys.modules[f"{package}.strategies.launchers.subprocess_script"]
    untouched = module._basic_subprocess_cmd
    plain = untouched()
    detach = attach(TraceOptions(max_steps=9))
    again = attach(TraceOptions(max_steps=9))
    command = module._basic_subprocess_cmd()
    again()
    detach()
    assert module._basic_subprocess_cmd is untouched
    assert command[:4] == [sys.executable, *WORKER, "--options"]
    assert TraceOptions.from_json(command[4]).max_steps == 9
    assert [command[0], *command[5:]] == plain


def test_ranks_that_lightning_starts_know_the_launcher_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(REGISTRY, "launched", True)
    command = children.lead([sys.executable, "train.py"], TraceOptions())
    assert command[-3:] == ["--launcher", name_of(os.getppid()), "train.py"]


def test_a_command_of_another_kind_is_left_as_it_is() -> None:
    assert children.lead(["srun", "python", "train.py"], TraceOptions()) == [
        "srun", "python", "train.py",
    ]  # fmt: skip


def test_a_lightning_that_starts_its_ranks_otherwise_is_said_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["lightning.pytorch.strategies.launchers.subprocess_script"]
    monkeypatch.delattr(module, "_basic_subprocess_cmd")
    with pytest.warns(TraintraceWarning, match="starts its processes in a way") as seen:
        attach(TraceOptions())()
    assert len(seen) == 1
