"""Public reports about tokens, throughput, and the life of a callback."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainerCallback, TrainingArguments

from tests.labs.huggingface import (
    NO_SLEEPS,
    UPDATES_SHORT_GROUPS,
    Items,
    Language,
    Net,
    Recipe,
    Sleeps,
    Truth,
    read,
    texts,
)
from traintrace.facts import PARTIAL_GROUP
from traintrace_huggingface import TraceCallback


def test_h14_real_and_padded_tokens_are_kept_apart(recipe: Recipe, with_report: None) -> None:
    """HF#28791, HF#29889, HF#32469: token counts included the padding."""
    callback = recipe.callback()
    recipe.trainer(
        callback,
        dataset=texts(3, 7),
        model=Language(),
        accumulate=2,
        batch_size=1,
        own_optimizer=False,
    ).train()
    rank = read(callback)
    assert rank.columns["tokens"] == [10]
    assert rank.columns["padded_tokens"] == [14]
    counts = callback.summary()["counts"]
    assert (counts["tokens"], counts["padded_tokens"]) == (10, 14)


def test_h15_tokens_of_all_micro_batches_count(recipe: Recipe, with_report: None) -> None:
    """axolotl#3688: the last micro-batch of a group overwrote the count of the others."""
    callback = recipe.callback()
    recipe.trainer(
        callback,
        dataset=texts(*[100] * 24),
        model=Language(recipe.truth, 5),
        accumulate=8,
        batch_size=1,
        own_optimizer=False,
        disable_tqdm=True,
    ).train()
    assert read(callback).columns["tokens"] == [800, 800, 800]
    summary = callback.summary()
    seconds = summary["step_time"]["metrics"]["step_time"]["mean"] / 1e3
    assert seconds >= 0.04
    assert summary["throughput"]["tokens_per_s"]["step"] == pytest.approx(800 / seconds)


def test_h16_a_save_is_no_part_of_the_rate(recipe: Recipe, with_report: None) -> None:
    """optimum-habana#237: the time of checkpoints made the scaling look bad."""

    class Slow(TrainerCallback):
        def on_save(self, *args: Any, **kwargs: Any) -> None:
            recipe.truth.sleep("checkpoint", 1_000)

    callback = recipe.callback()
    recipe.trainer(
        callback,
        Slow,
        sleeps=Sleeps(forward=50),
        batches=20,
        batch_size=1,
        save_strategy="steps",
        save_steps=20,
    ).train()
    summary = callback.summary()
    assert summary["wall"]["accounts_ns"]["checkpoint"] >= recipe.truth.ns["checkpoint"]
    window, rate = summary["step_time"]["window"], summary["throughput"]["steps_per_s"]
    # 20 steps/s, less what the machine was busy with. The save is in the round trip and nowhere else.
    assert rate["step"] <= 20
    steady = window["steps"] - window["warmup_steps"]
    between = steady / rate["round_trip"] - steady / rate["step"]
    assert between >= recipe.truth.ns["checkpoint"] / 1e9


def test_h17_a_callback_that_is_used_again_starts_clean(recipe: Recipe, with_report: None) -> None:
    """huggingface/setfit#502: state of a callback survived into the next trial."""
    callback = recipe.callback()
    trainer = recipe.trainer(callback, batches=3)
    folders = []
    for _ in range(2):
        trainer.train()
        assert read(callback).columns["step"] == [1, 2, 3]
        assert callback.summary()["counts"]["steps"] == 3
        folders.append(callback.run_folder)
    assert folders[0] != folders[1]
    assert all((folder / "final_summary.json").is_file() for folder in folders if folder)


def test_h18_a_group_that_is_stopped_is_no_step(recipe: Recipe) -> None:
    """TML#459: failed and stopped groups were published as steps."""

    class Stops(TrainerCallback):
        def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop = state.global_step == 1

    callback = recipe.callback()
    sleeps = Sleeps(item=5, forward=10)
    recipe.trainer(callback, Stops, sleeps=sleeps, batches=8, accumulate=4, batch_size=1).train()
    rank = read(callback)
    assert rank.columns["micro_batches"] == [4]
    assert (rank.totals.steps, rank.totals.steps_aborted) == (1, 1)
    # The second group: four fetches, of which three are left after the look-ahead, and one forward.
    true = sum(recipe.truth.each["input_wait"][5:]) + recipe.truth.each["forward"][4]
    assert rank.totals.account_ns["aborted"] >= true


def test_h18_of_two_callbacks_one_owns_the_run(recipe: Recipe) -> None:
    """TML#459: a callback that was given twice recorded everything twice."""
    first, second = recipe.callback(), recipe.callback()
    recipe.trainer(first, second, batches=2).train()
    assert read(first).columns["step"] == [1, 2]
    assert second.run_folder is None
    assert len(list((recipe.folder / "runs").iterdir())) == 1


def test_h19_one_callback_is_all_that_a_user_adds(
    recipe: Recipe,
    with_report: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """HF#8325, HF#36360, HF#37889: users patched the Trainer to time a step."""
    monkeypatch.chdir(recipe.folder)
    truth = Truth()
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=1, num_train_epochs=1, use_cpu=True, report_to=[]
    )
    data: Any = Items(truth, 20, "input_wait", 0)
    trainer = Trainer(
        Net(truth, NO_SLEEPS), arguments, train_dataset=data, callbacks=[TraceCallback()]
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*pin_memory")
        trainer.train()
    (folder,) = Path("runs").iterdir()
    summary = json.loads((folder / "final_summary.json").read_text(encoding="utf-8"))
    assert summary["counts"]["steps"] == 20
    assert "final_summary.json" in capsys.readouterr().err
    assert (folder / "final_summary.txt").is_file()


def test_h20_a_log_with_a_group_half_done_cuts_no_step(recipe: Recipe) -> None:
    """unslothai/unsloth-zoo#873: a log at the epoch's end made tokens/s 6 times too low, then too high."""
    times = [10, 10, 100, 10, 10, 10]

    class Uneven(Net):
        def think(self, x: Any, labels: Any) -> Any:
            self.truth.sleep("micro", times[len(self.truth.each["micro"])])
            return super().think(x, labels)

    callback = recipe.callback()
    recipe.trainer(
        callback,
        model=Uneven(recipe.truth, NO_SLEEPS),
        batches=3,
        accumulate=2,
        num_train_epochs=2,
        logging_strategy="epoch",
    ).train()
    rank = read(callback)
    groups = [2, 1, 2, 1] if UPDATES_SHORT_GROUPS else [2, 2]
    assert rank.columns["micro_batches"] == groups
    done = 0
    for count, ns in zip(groups, rank.columns["forward_ns"], strict=True):
        assert (ns or 0) >= sum(recipe.truth.each["micro"][done : done + count])
        done += count
    partial = [bool((flags or 0) & PARTIAL_GROUP) for flags in rank.columns["flags"]]
    assert partial == [count < 2 for count in groups]
    assert len([scalar for scalar in rank.scalars if scalar.name == "loss"]) == 2
