"""The very end of a fit: the last hooks, the progress bar, and the report after them."""

from typing import Any

import pytest

from traintrace import open_run


class Broken(Exception):
    """The user's own error."""


def test_the_report_comes_after_every_other_callback(lab: Any, monkeypatch: Any) -> None:
    order = []

    class Bar(lab.pl.Callback):  # type: ignore[misc]
        def teardown(self, *arguments: Any, **named: Any) -> None:
            order.append("bar")

    def finish_run(*arguments: Any, **named: Any) -> None:
        order.append("report")

    monkeypatch.setattr("traintrace_reporting.finish.finish_run", finish_run)
    lab.trainer(lab.callback(), Bar()).fit(lab.Model(), lab.loader(2, 0))
    assert order == ["bar", "report"]


def test_the_report_comes_after_every_other_callback_even_if_recording_stopped_before(
    lab: Any, monkeypatch: Any
) -> None:
    order = []

    class Bar(lab.pl.callbacks.RichProgressBar):  # type: ignore[misc]
        def teardown(self, *arguments: Any, **named: Any) -> None:
            super().teardown(*arguments, **named)
            order.append("bar")

    class Model(lab.Model):  # type: ignore[misc]
        def teardown(self, stage: str) -> None:
            order.append("module")

    def finish_run(*arguments: Any, **named: Any) -> None:
        order.append("report")

    monkeypatch.setattr("traintrace_reporting.finish.finish_run", finish_run)
    callback = lab.callback(max_steps=1)
    trainer = lab.trainer(callback, Bar(), enable_progress_bar=True)
    trainer.fit(Model(), lab.loader(3, 0))
    assert order == ["bar", "module", "report"]
    assert "stop" not in vars(trainer.profiler)
    assert open_run(callback.run_folder).facts([]).status == "completed"


@pytest.mark.parametrize("options", [{}, {"max_steps": 1}])
@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, SystemExit])
def test_no_progress_bar_is_drawn_any_more_when_the_report_is_printed(
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr("signal.signal", lambda *arguments: None)
    drawn = []

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            drawn.append(bar.progress.live.is_started)
            if batch_idx == 2:
                raise error
            return super().training_step(batch, batch_idx)

    def finish_run(*arguments: Any, **named: Any) -> None:
        drawn.append(bar.progress.live.is_started)

    monkeypatch.setattr("traintrace_reporting.finish.finish_run", finish_run)
    bar = lab.pl.callbacks.RichProgressBar()
    callback = lab.callback(print_report=True, **options)
    with pytest.raises((error, SystemExit)):
        lab.trainer(callback, bar, enable_progress_bar=True).fit(Model(), lab.loader(4, 0))
    assert drawn == [True, True, True, False]


@pytest.mark.parametrize("options", [{}, {"max_steps": 1}])
@pytest.mark.parametrize(
    ("error", "status"), [(Broken, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_a_teardown_that_raises_is_no_good_end(
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    status: str,
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr("signal.signal", lambda *arguments: None)

    class Model(lab.Model):  # type: ignore[misc]
        def teardown(self, stage: str) -> None:
            raise error

    callback = lab.callback(**options)
    trainer = lab.trainer(callback)
    with pytest.raises((error, SystemExit)):
        trainer.fit(Model(), lab.loader(2, 0))
    assert open_run(callback.run_folder).facts([]).status == status
    assert "stop" not in vars(trainer.profiler)
