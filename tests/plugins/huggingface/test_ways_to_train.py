"""Ways to use a Trainer, each recorded as what it is: searches, checkpointed blocks, counted labels, strategies."""

from typing import Any

import optuna
import pytest
import torch
from torch.utils.checkpoint import checkpoint
from transformers import Trainer

from tests.labs.huggingface import UPDATES_SHORT_GROUPS, Net, Recipe, Sleeps, read
from traintrace import open_run
from traintrace_huggingface import TraceCallback
from traintrace_huggingface.setup import describe


def test_each_trial_of_a_search_is_a_run_of_its_own(recipe: Recipe) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(
        callback, batches=4, accumulate=2, own_optimizer=False, eval_strategy="epoch"
    )
    trainer.model_init = lambda trial: Net(recipe.truth, Sleeps(forward=5, evaluation=10))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    trainer.hyperparameter_search(
        lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2)},
        n_trials=3,
        backend="optuna",
    )
    runs = [open_run(folder) for folder in (recipe.folder / "runs").iterdir()]
    assert len(runs) == 3
    for run in runs:
        (rank,) = run.facts(["micro_batches"]).ranks
        assert rank.status == "completed"
        assert rank.columns["micro_batches"] == [2, 2]
        assert rank.totals.calls["evaluation"] == 1
        assert rank.totals.steps_aborted == 0
        assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns


def test_evaluating_and_predicting_outside_train_record_nothing(recipe: Recipe) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, batches=2)
    trainer.evaluate()
    trainer.predict(trainer.eval_dataset)
    assert callback.run_folder is None
    trainer.train()
    trainer.evaluate()
    trainer.predict(trainer.eval_dataset)
    rank = read(callback)
    assert rank.columns["step"] == [1, 2]
    assert not {"evaluation", "prediction"} & set(rank.totals.account_ns)


def test_the_callback_may_be_given_as_a_class(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recipe.folder)
    trainer = recipe.trainer(TraceCallback, batches=2)
    (callback,) = [c for c in trainer.callback_handler.callbacks if isinstance(c, TraceCallback)]
    trainer.train()
    assert read(callback).columns["step"] == [1, 2]
    assert callback.run_folder is not None
    assert callback.run_folder.parent.name == "runs"


@pytest.mark.skipif(
    not UPDATES_SHORT_GROUPS, reason="transformers 4.46 counts inside the collection"
)
def test_counting_the_items_of_a_group_is_preparation_and_no_waiting(recipe: Recipe) -> None:
    truth = recipe.truth
    seen = []

    class Counts(Trainer):
        def _get_num_items_in_batch(self, *args: Any, **kwargs: Any) -> Any:
            truth.sleep("batch_prep", 20)
            return super()._get_num_items_in_batch(*args, **kwargs)

    def loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        seen.append(int(num_items_in_batch))
        return outputs["loss"]

    callback = recipe.callback()
    trainer = recipe.trainer(callback, kind=Counts, sleeps=Sleeps(item=5), batches=4, accumulate=2)
    trainer.compute_loss_func = loss
    trainer.train()
    rank = read(callback)
    assert seen == [4, 4, 4, 4]  # the samples of a whole group
    for account in ("batch_prep", "input_wait"):
        assert rank.totals.account_ns[account] >= truth.ns[account], account


class Checkpointed(Net):
    """A network that gives up the activations of its middle and computes them again in backward."""

    is_reentrant: bool

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs: Any = None) -> None:
        self.is_reentrant = gradient_checkpointing_kwargs["use_reentrant"]

    def activation_checkpointing_enable(
        self, activation_checkpointing_kwargs: Any = None, **kwargs: Any
    ) -> None:
        self.gradient_checkpointing_enable(activation_checkpointing_kwargs)

    def think(self, x: torch.Tensor, labels: torch.Tensor | None) -> Any:
        hidden: Any = checkpoint(self.middle, self.inner[0](x), use_reentrant=self.is_reentrant)
        return {"loss": self.inner[2](hidden).square().mean()}

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        is_again = torch._C._current_graph_task_id() != -1
        self.truth.sleep("backward" if is_again else "first pass", 15)
        return hidden.relu()


@pytest.mark.filterwarnings(
    "ignore:.gradient_checkpointing.*is deprecated:FutureWarning"
)  # the name in 4.46
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputed_activations_are_backward(recipe: Recipe, use_reentrant: bool) -> None:
    callback = recipe.callback()
    recipe.trainer(
        callback,
        model=Checkpointed(recipe.truth, Sleeps()),
        batches=3,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": use_reentrant},
    ).train()
    rank = read(callback)
    assert recipe.truth.calls["backward"] == recipe.truth.calls["first pass"] == 3
    assert rank.columns["forward_calls"] == rank.columns["backward_calls"] == [1, 1, 1]
    for account in ("forward", "backward"):
        assert rank.totals.account_ns[account] >= recipe.truth.ns[account], account


@pytest.mark.parametrize(
    ("attribute", "strategy"),
    [("is_deepspeed_enabled", "deepspeed"), ("is_fsdp_enabled", "fsdp"), (None, "single_process")],
)
def test_the_strategy_is_what_the_trainer_was_told(
    recipe: Recipe, attribute: str | None, strategy: str
) -> None:
    trainer = recipe.trainer()
    if attribute is not None:
        setattr(trainer, attribute, True)
    assert describe(trainer).strategy == strategy


def test_several_devices_in_one_process_are_data_parallel(recipe: Recipe) -> None:
    trainer = recipe.trainer()
    trainer.args._n_gpu = 2
    assert describe(trainer).strategy == "dp"
