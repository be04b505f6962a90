"""Train with one integration, traced and not, and write down everything that can be observed.

    python -m tests.unchanged.subject INTEGRATION FOLDER

Each training has a process of its own, forked when the framework is loaded and nothing of ours is: so
what our first import does is seen, and the framework is loaded once instead of six times. Each ends as
the interpreter lets it end: after a whole training, or with what the user's code raised.
"""

import functools
import gc
import os
import pickle
import random
import sys
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import torch

from tests.unchanged.subject import (
    endings,
    huggingface_train,
    lightning_fit,
    loops,
    objects,
    patches,
    process,
    recipe,
)
from tests.unchanged.subject.audit import Audit
from tests.unchanged.subject.exit_functions import ExitFunctions

# By integration: the module that a user's script imports, and the training.
INTEGRATIONS: Final[Mapping[str, tuple[str, loops.Train]]] = MappingProxyType(
    {
        "plain": ("torch.utils.data", loops.train_plain),
        "accelerate": ("accelerate", loops.train_accelerate),
        "fabric": ("lightning.fabric", loops.train_fabric),
        **{
            name: (name, functools.partial(lightning_fit.train, name))
            for name in ("lightning.pytorch", "pytorch_lightning")
        },
        "huggingface": ("transformers.trainer", huggingface_train.train),
    }
)


class Training:
    """One training in a process of its own."""

    def __init__(self, train: loops.Train, traced: bool, folder: Path, before: patches.Attributes):
        self._train, self._traced, self._folder, self._before = train, traced, folder, before
        self._record: dict[str, Any] = {}
        self._warnings: list[tuple[str, str, str]] = []
        self._live_here()
        self._note_warnings()
        self._audit = Audit(str(folder))
        self._exit_functions = ExitFunctions()
        torch.manual_seed(11)
        random.seed(11)  # Python draws a new seed in a forked child
        np.random.seed(11)

    def _live_here(self) -> None:
        """Work in a folder of this process alone, as a user's script does."""
        for name in (recipe.WORKERS_FOLDER, "tmp"):
            (self._folder / "work" / name).mkdir(parents=True)
        os.chdir(self._folder / "work")
        os.environ["SANDBOX"] = str(self._folder)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder / "work" / "tmp")
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            target = os.open(self._folder / name, os.O_CREAT | os.O_WRONLY)
            os.dup2(target, descriptor)
            os.close(target)

    def _note_warnings(self) -> None:
        def note(message: Any, category: type[Warning], file: str, line: int, *more: Any) -> None:
            self._warnings.append((category.__name__, str(message), f"{Path(file).name}:{line}"))

        warnings.simplefilter("always")
        warnings.showwarning = note  # type: ignore[assignment]  # it takes more

    def run(self, failure: type[BaseException] | None) -> None:
        """Train to the end, or until the user's code raises `failure`, which this raises too."""
        try:
            if failure is None:
                self._run_to_the_end()
            else:
                self._train(recipe.FailingNet(failure), recipe.Diary(), self._traced)
        except BaseException as error:
            self._record["ending"] = endings.describe(error)
            endings.forget_frames(error)
            self._write_what_is_left()
            raise
        self._write_what_is_left()

    def _run_to_the_end(self) -> None:
        diary, record = recipe.Diary(), self._record
        users: dict[str, Any] = self._train(recipe.Net(), diary, self._traced)
        record.update(diary.notes)
        record["workers"] = recipe.worker_starts()
        net: Any = getattr(users["model"], "module", users["model"])
        record["weights"] = recipe.pickles({"weights": net.state_dict()})
        states = {name: users[name].state_dict() for name in ("optimizer", "scheduler")}
        record["optimizer and scheduler"] = recipe.pickles(states)
        record["pickles after training"] = recipe.pickles({"model": net})
        record["objects"], record["ours on objects"] = objects.shapes(users), objects.ours(users)
        record["types after training"] = {k: recipe.type_name(v) for k, v in users.items()}
        living = {name: weakref.ref(value) for name, value in users.items()}
        users.clear()
        del net, states
        gc.collect()
        record["still alive"] = [name for name, value in living.items() if value() is not None]
        graphs: list[list[str]] = []
        self._train(recipe.CompiledNet(graphs), recipe.BlindDiary(), self._traced)
        record["graphs"] = graphs

    def _write_what_is_left(self) -> None:
        gc.collect()
        after = patches.attributes()
        left = {
            "warnings": self._warnings,
            "state": process.state(),
            "patches": patches.changes(self._before, after),
            "ours in modules": patches.ours(after),
            "deeds": self._audit.events,
            "functions at exit": self._exit_functions.names(),
        }
        (self._folder / "record").write_bytes(pickle.dumps({**self._record, **left}))


def main(integration: str, folder: str) -> None:
    framework, train = INTEGRATIONS[integration]
    import_module(framework)
    import_module("torch._dynamo")  # loaded by some frameworks, by first steps of others
    before = patches.attributes()
    gc.collect()
    gc.freeze()  # children share what is loaded, and no collection walks through it
    now = Path(folder) / "now"  # the same path for both variants: some checkpoints hold it
    for variant in ("untraced", "traced"):
        children: dict[int, Path] = {}
        for failure in (None, ValueError, KeyboardInterrupt):
            own = now / (failure.__name__ if failure else "completed")
            child = os.fork()
            if child == 0:
                Training(train, variant == "traced", own, before).run(failure)
                return
            children[child] = own
        for child, own in children.items():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            (own / "exit_code").write_text(str(code), encoding="utf-8")
        now.rename(Path(folder) / variant)


if __name__ == "__main__":
    main(*sys.argv[1:])
