"""How a fit ends, and what is there afterwards."""

from typing import Any

import pytest
import torch

from traintrace import open_run
from traintrace.registry import REGISTRY


class Broken(Exception):
    """The user's own error."""


def test_an_exception_ends_the_run_and_reaches_the_user_unchanged(both: Any, read: Any) -> None:
    class Model(both.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            if batch_idx == 3:
                raise error
            return loss

    error = Broken("mine")
    callback = both.callback()
    trainer = both.trainer(callback)
    with pytest.raises(Broken) as raised:
        trainer.fit(Model(), both.loader(10))
    assert raised.value is error
    run = read(callback, trainer, both.taken)
    run.check_books()
    assert (run.facts.status, run.rank.totals.steps, run.rank.totals.steps_aborted) == (
        "failed",
        3,
        1,
    )
    assert run.ms("aborted") > 5
    ended_by = [event.detail for event in run.rank.events if event.kind == "exception"]
    assert ended_by == ["Broken"]
    assert torch.autograd.backward.__module__ == "torch.autograd"
    assert vars(trainer.profiler).keys().isdisjoint(("start", "stop", "profile"))

    callback_2 = both.callback()
    both.trainer(callback_2).fit(both.Model(), both.loader(2))
    assert open_run(callback_2.run_folder).facts([]).status == "completed"


def test_ctrl_c_interrupts_the_run(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "signal.signal", lambda *arguments: None
    )  # Lightning disarms SIGINT for good

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == 1:
                raise KeyboardInterrupt
            return super().training_step(batch, batch_idx)

    callback = lab.callback()
    with pytest.raises(SystemExit):
        lab.trainer(callback).fit(Model(), lab.loader(4))
    facts = open_run(callback.run_folder).facts([])
    assert facts.status == "interrupted"
    assert (facts.ranks[0].totals.steps, facts.ranks[0].totals.steps_aborted) == (1, 1)


def test_an_error_before_setup_is_no_affair_of_ours(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def prepare_data(self) -> None:
            raise Broken

    callback = lab.callback()
    with pytest.raises(Broken):
        lab.trainer(callback).fit(Model(), lab.loader(2))
    assert callback.run_folder is None


def test_an_update_that_raises_and_is_caught_does_not_keep_optimizer_open(lab: Any) -> None:
    class Update(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            raise Broken

    class Model(lab.Model):  # type: ignore[misc]
        def optimizer_step(self, *arguments: Any, **named: Any) -> None:
            with pytest.raises(Broken):
                super().optimizer_step(*arguments, **named)
            lab.work("other", 40)

        def configure_optimizers(self) -> Any:
            return Update(self.parameters(), lr=1e-3)

    run = lab.fit(Model(), lab.loader(3, 0))
    run.check_truth()  # in an optimizer that stayed open, what follows it would be missing in `other`
    assert run.taken["other calls"] == 3


@pytest.mark.parametrize("scaled", [False, True])
def test_a_failing_step_leaves_no_update_open(lab: Any, read: Any, scaled: bool) -> None:
    torch.optim.SGD(
        [torch.zeros(1)]
    )  # from its first instance on, torch calls hooks for its class, too

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == 2:
                raise Broken
            return super().training_step(batch, batch_idx)

    plugins = []
    if scaled:  # then the closure runs before the update, not in it
        scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
        plugins = [lab.pl.plugins.MixedPrecision("16-mixed", "cpu", scaler)]
    callback = lab.callback()
    trainer = lab.trainer(callback, plugins=plugins)
    with pytest.raises(Broken):
        trainer.fit(Model(), lab.loader(4, 0))
    run = read(callback, trainer, lab.taken)
    run.check_books()  # no leave without its enter, and none missing
    assert run.steps["optimizer_calls"] == [1, 1]


def test_fit_twice_with_other_entry_points_between_gives_two_clean_runs(both: Any) -> None:
    class Model(both.Model):  # type: ignore[misc]
        def test_step(self, batch: Any, batch_idx: int) -> None:
            pass

        validation_step = test_step

    callback, model, loader = both.callback(), Model(), both.loader(3)
    trainer = both.trainer(callback)
    trainer.fit(model, loader)
    first = callback.run_folder
    trainer.test(model, loader)
    trainer.validate(model, loader)
    assert callback.run_folder == first
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model, loader)
    assert callback.run_folder != first
    for folder in (first, callback.run_folder):
        facts = open_run(folder).facts(["micro_batches"])
        assert facts.status == "completed"
        assert list(facts.ranks[0].columns["micro_batches"]) == [1, 1, 1]
        totals = facts.ranks[0].totals
        assert sum(totals.account_ns.values()) == totals.wall_ns


def test_of_two_callbacks_one_traces(lab: Any) -> None:
    first, second = lab.callback(), lab.callback()
    with pytest.warns(UserWarning, match="a trace is active on this thread already"):
        lab.trainer(first, second).fit(lab.Model(), lab.loader(3, 0))
    assert second.run_folder is None
    assert open_run(first.run_folder).facts([]).ranks[0].totals.steps == 3


def test_recording_stops_after_max_steps_and_training_goes_on(lab: Any) -> None:
    callback = lab.callback(max_steps=2)
    trainer = lab.trainer(callback)
    trainer.fit(lab.Model(), lab.loader(5, 0))
    assert trainer.global_step == 5
    assert open_run(callback.run_folder).facts([]).ranks[0].totals.steps == 2


def _breaks_at(lab: Any, batch: int) -> Any:
    class Breaks(lab.pl.Callback):  # type: ignore[misc]
        def on_train_batch_start(
            self, trainer: Any, module: Any, data: Any, batch_idx: int
        ) -> None:
            if batch_idx == batch:
                raise Broken

    return Breaks()


def test_a_callback_that_raises_on_being_told_of_an_error_does_not_keep_the_fit_open(
    both: Any,
) -> None:
    class Rude(both.pl.Callback):  # type: ignore[misc]
        def on_exception(self, *arguments: Any) -> None:
            raise Broken("in on_exception")

        def on_train_batch_end(self, *arguments: Any) -> None:
            raise Broken("mine")

    callback = both.callback()
    with pytest.raises(Broken, match="in on_exception"):
        both.trainer(Rude(), callback).fit(both.Model(), both.loader(2, 0))
    assert REGISTRY.current() is None
    run = open_run(callback.run_folder).facts([])
    assert run.status == "failed"
    assert [e.detail for e in run.ranks[0].events if e.kind == "exception"] == ["Broken"]
    other = both.callback()  # was refused as long as the failed fit was open
    both.trainer(other).fit(both.Model(), both.loader(2, 0))
    assert open_run(other.run_folder).facts([]).status == "completed"


def test_a_fit_that_ended_without_a_word_is_closed_by_the_next(lab: Any) -> None:
    class Rude(lab.pl.Callback):  # type: ignore[misc]
        def on_exception(self, *arguments: Any) -> None:
            raise Broken("in on_exception")

    callback = lab.callback(max_steps=1)  # recording has stopped, and its stream with it
    with pytest.raises(Broken):
        lab.trainer(Rude(), callback, _breaks_at(lab, 2)).fit(lab.Model(), lab.loader(3, 0))
    rude_run = callback.run_folder
    assert open_run(rude_run).facts([]).status == "running"
    lab.trainer(callback).fit(lab.Model(), lab.loader(2, 0))
    assert open_run(rude_run).facts([]).status == "failed"
    assert open_run(callback.run_folder).facts([]).status == "completed"


def test_the_summary_can_be_read_during_the_run_and_after_it(lab: Any) -> None:
    seen = []

    class Model(lab.Model):  # type: ignore[misc]
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            if batch_idx == 2:
                seen.append(callback.summary()["counts"]["steps"])
                assert REGISTRY.current() is not None

    callback = lab.callback()
    lab.trainer(callback).fit(Model(), lab.loader(4, 0))
    assert seen == [2]
    summary = callback.summary()
    assert summary["counts"]["steps"] == 4
    assert summary["run"]["status"] == "completed"
    assert (callback.run_folder / "final_summary.json").exists()
