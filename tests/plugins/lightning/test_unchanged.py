"""Tracing changes nothing: results, graphs, pickles, profilers; and its faults stay its own."""

import copy
import io
import pickle
import re
import warnings
from typing import Any

import pytest
import torch

import traintrace_lightning.fit
from traintrace.registry import REGISTRY


def _train(lab: Any, callbacks: list[Any]) -> tuple[list[float], list[torch.Tensor], torch.Tensor]:
    losses: list[float] = []

    class Model(lab.pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
            )

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = self.net(batch).pow(2).mean()
            losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val", self.net(batch).mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    torch.manual_seed(7)
    model = Model()
    data = torch.randn(20, 4)
    rows: Any = data
    loader = torch.utils.data.DataLoader(rows, batch_size=2, shuffle=True)
    trainer = lab.trainer(
        *callbacks, max_epochs=2, accumulate_grad_batches=3, gradient_clip_val=0.1
    )
    trainer.fit(model, loader, torch.utils.data.DataLoader(rows[:4]))
    return losses, [p.detach().clone() for p in model.parameters()], torch.get_rng_state()


def test_results_are_the_same_to_the_bit(both: Any) -> None:
    absent = _train(both, [])
    for callback in (both.callback(), both.callback(enabled=False), both.callback(level="step")):
        losses, weights, generator = _train(both, [callback])
        assert losses == absent[0]
        assert all(map(torch.equal, weights, absent[1]))
        assert torch.equal(generator, absent[2])


def test_a_callback_that_is_off_installs_nothing(lab: Any) -> None:
    seen = []

    class Look(lab.pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, module: Any, *arguments: Any) -> None:
            seen.append(("start" in vars(trainer.profiler), REGISTRY.current()))

    callback = lab.callback(enabled=False)
    lab.trainer(callback, Look()).fit(lab.Model(), lab.loader(2, 0))
    assert seen == [(False, None)] * 2
    assert callback.run_folder is None
    assert callback.summary() == {}
    assert not (lab.folder / "runs").exists()


def test_nothing_stays_on_the_users_objects(lab: Any) -> None:
    model = lab.Model()
    model.layer = torch.nn.Linear(1, 1)
    trainer = lab.trainer(lab.callback())
    trainer.fit(model, lab.loader(2, 0))
    loop = trainer.fit_loop
    for owner in (
        *(trainer, trainer.profiler, trainer.strategy, trainer.precision_plugin),
        *(loop, loop.epoch_loop, loop.epoch_loop.val_loop, trainer._logger_connector),
        *(type(model), type(model.net), *model.modules()),
    ):
        left = [k for k, v in vars(owner).items() if hasattr(v, "__traintrace_done__")]
        assert left == []


def _profiled(profiler: Any) -> dict[str, Any]:
    """Give what the user's profiler recorded: how often each action ran, our own hooks left out."""
    if hasattr(profiler, "recorded_durations"):
        counts = {name: len(each) for name, each in profiler.recorded_durations.items()}
    elif hasattr(profiler, "function_events"):
        actions = ("run_training_batch", "[Strategy]SingleDeviceStrategy.training_step")
        averages = {each.key: each.count for each in profiler.function_events.key_averages()}
        counts = {name: averages[f"[pl][profile]{name}"] for name in actions}
    else:
        (report,) = profiler.dirpath.glob(f"*{profiler.filename}*")
        counts = dict.fromkeys(
            re.findall(r"Profile stats for: (\S+)", report.read_text("utf-8")), 1
        )
    return {name: count for name, count in counts.items() if "TraceCallback" not in name}


@pytest.mark.parametrize("kind", ["SimpleProfiler", "AdvancedProfiler", "PyTorchProfiler"])
def test_the_users_profiler_keeps_its_identity_and_its_results(lab: Any, kind: str) -> None:
    make = getattr(lab.pl.profilers, kind)
    plain, profiler = (make(dirpath=lab.folder, filename=name) for name in ("plain", "traced"))
    lab.trainer(profiler=plain).fit(lab.Model(), lab.loader(3, 0))
    run = lab.fit(lab.Model(), lab.loader(3, 0), profiler=profiler)
    run.check_books()
    run.check_truth("forward", "backward")
    assert run.trainer.profiler is profiler
    assert "start" not in vars(profiler)
    assert _profiled(profiler) == _profiled(plain) != {}


def test_the_model_pickles_and_copies_while_it_trains(lab: Any) -> None:
    results = []

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)  # torch's own class goes through the instance's slot

        def on_train_batch_end(self, *arguments: Any) -> None:
            stored = io.BytesIO()
            torch.save(self.net, stored)
            stored.seek(0)
            for twin in (copy.deepcopy(self.net), torch.load(stored, weights_only=False)):
                results.append(twin(torch.ones(1, 4)).item() == self.net(torch.ones(1, 4)).item())
            results.append(type(copy.deepcopy(self)) is type(self))

    run = lab.fit(Model(), lab.loader(2, 0))
    assert results == [True] * 6
    # Two calls by the hook itself and one by the step; the copies emit nothing.
    assert run.steps["forward_calls"] == [3, 3]


@pytest.mark.parametrize("where", ["child", "in place", "grandchild", "module", "used"])
def test_compiled_models_keep_their_number_of_graphs(lab: Any, where: str) -> None:
    dynamo = pytest.importorskip("torch._dynamo")
    counters = __import__("torch._dynamo.utils", fromlist=["counters"]).counters

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.inner(x))

        def use(self, x: Any) -> Any:
            return self.inner(x)

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Part()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            call = self.net.use if where == "used" else self.net
            return call(batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    def graphs(*callbacks: Any) -> int:
        dynamo.reset()
        counters.clear()
        model: Any = Model()
        if where == "child":
            model.net = torch.compile(model.net, backend="eager", fullgraph=True)
        elif where == "in place":
            model.net.compile(backend="eager", fullgraph=True)
        elif where in ("grandchild", "used"):
            model.net.inner = torch.compile(model.net.inner, backend="eager", fullgraph=True)
        else:
            model = torch.compile(model, backend="eager")
        for _ in range(2):  # a second fit finds the seams of the first gone, and its graphs there
            lab.trainer(*callbacks).fit(model, lab.loader(4, 0))
        return int(counters["stats"]["unique_graphs"])

    untraced = graphs()
    callback = lab.callback()
    assert graphs(callback) == untraced >= 1
    totals = callback._session.as_run().facts([]).ranks[0].totals
    assert totals.calls["forward"] == (3 if where == "used" else 4)
    dynamo.reset()


def test_a_fault_of_ours_is_told_once_and_training_goes_on(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(REGISTRY, "raise_faults", False)

    def broken(batch: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(traintrace_lightning.fit, "batch_sizes", broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = lab.fit(lab.Model(), lab.loader(3, 0))
    ours = [str(each.message) for each in caught if "ZeroDivisionError" in str(each.message)]
    assert len(ours) == 1
    assert "the size of a batch" in ours[0]
    assert run.steps["micro_batches"] == [1] * 3
    assert run.steps["samples"] == [None] * 3


@pytest.mark.parametrize("name", ["open_session", "install_on_trainer", "install_on_training"])
def test_a_fault_in_setting_up_leaves_training_alone(
    lab: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(REGISTRY, "raise_faults", False)

    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(f"traintrace_lightning.callback.{name}", broken)
    trainer = lab.trainer(lab.callback())
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        trainer.fit(lab.Model(), lab.loader(3, 0))
    assert trainer.global_step == 3


def test_under_our_own_tests_a_fault_is_raised(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(batch: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(traintrace_lightning.fit, "batch_sizes", broken)
    with pytest.raises(ZeroDivisionError):
        lab.trainer(lab.callback()).fit(lab.Model(), lab.loader(3, 0))


def test_the_callback_pickles_before_and_after(both: Any) -> None:
    callback = both.callback(max_steps=2)
    for _ in range(2):
        for twin in (pickle.loads(pickle.dumps(callback)), copy.deepcopy(callback)):
            assert twin._options == callback._options
            assert twin.run_folder is None
            assert isinstance(twin, both.pl.Callback)
        both.trainer(callback).fit(both.Model(), both.loader(3, 0))
