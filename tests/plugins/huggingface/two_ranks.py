"""What `test_ranks.py` starts with torchrun: rank 1 has the slower data, and both train twice.

Truth is what each rank clocked around its gathers; it is written beside the runs.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed
from packaging.version import Version
from transformers import Trainer

from tests.labs.huggingface import TRANSFORMERS, Recipe, Sleeps

SLEEP_MS = 30


class Labelled(Trainer):
    """Has the labels of a group counted over all ranks, as for language models, and a plain loss."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return model(**inputs)["loss"]


def train(folder: Path, name: str, *, average: bool) -> dict[str, list[int]]:
    recipe = Recipe(folder)
    arguments: dict[str, Any] = {}
    if TRANSFORMERS >= Version("4.47"):
        arguments["average_tokens_across_devices"] = average
    callback = recipe.callback(name=name)
    trainer = recipe.trainer(
        callback, kind=Labelled, batches=12, accumulate=2, batch_size=1, own_optimizer=False,
        ddp_backend="gloo", sleeps=Sleeps(forward=2, backward=2), **arguments,
    )  # fmt: skip
    rank = torch.distributed.get_rank()
    trainer.train_dataset.account, trainer.train_dataset.ms = "item", 1 + SLEEP_MS * rank
    trainer.compute_loss_func = lambda *a, **k: None  # makes the Trainer count labels
    gather = trainer.accelerator.gather

    def timed_gather(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter_ns()
        result = gather(*args, **kwargs)
        recipe.truth.each["gather"].append(time.perf_counter_ns() - began)
        return result

    trainer.accelerator.gather = timed_gather
    trainer.train()
    return dict(recipe.truth.each)


if __name__ == "__main__":
    runs = Path(sys.argv[1])
    for name, average in (("averaged", True), ("not-averaged", False)):
        truth = train(runs, name, average=average)
        place = runs / f"{name}-{torch.distributed.get_rank()}.json"
        place.write_text(json.dumps(truth), encoding="utf-8")
    torch.distributed.destroy_process_group()
