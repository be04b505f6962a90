"""The training that every integration runs: the user's model, data and diary; nothing of ours."""

import gc
import hashlib
import io
import json
import multiprocessing
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torch.utils.data.dataloader import _BaseDataLoaderIter

EPOCHS: Final = 2
BATCH_SIZE: Final = 2
ACCUMULATION: Final = 2
SAMPLES: Final = 14  # seven batches: the last group of an epoch is short
CLIP_NORM: Final = 0.05
WORKERS: Final = 2
FAILS_AT_CALL: Final = 3
WORKERS_FOLDER: Final = "workers"
# Where a diary looks inside a training that goes on: the second group of the first epoch.
LOOK_AT_BATCH: Final = 3


class Net(nn.Module):
    """A small network with dropout; its answers suit the Hugging Face Trainer too."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU())
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        output = self.head(self.body(x)).squeeze(-1)
        return {"loss": nn.functional.mse_loss(output, labels), "logits": output}


class FailingNet(Net):
    """The same, but the user's code raises in the middle of a group."""

    def __init__(self, failure: type[BaseException]) -> None:
        super().__init__()
        self.failure, self.calls = failure, 0

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        if self.calls == FAILS_AT_CALL:
            the_users_own_mistake(self.failure)
        return super().forward(x, labels)


def the_users_own_mistake(failure: type[BaseException]) -> None:
    raise failure("the user's own mistake")


class CompiledNet(nn.Module):
    """The same network, compiled; its graphs are noted in a list that the test can read."""

    def __init__(self, graphs: list[list[str]]) -> None:
        super().__init__()
        counting: Any = _counting_backend(graphs)
        self.net: Any = torch.compile(Net(), backend=counting)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return self.net(x, labels)


def _counting_backend(graphs: list[list[str]]) -> Any:
    def backend(module: Any, inputs: Any) -> Any:
        graphs.append([f"{node.op} {node.name}" for node in module.graph.nodes])
        return module.forward

    return backend


class Samples(Dataset[dict[str, torch.Tensor]]):
    """Random samples, drawn where they are loaded; a worker leaves a note of its start."""

    def __init__(self, count: int = SAMPLES) -> None:
        self.count = count
        self.noted = False

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        if not self.noted:
            self._note_worker()
        return {"x": torch.randn(4) + index / SAMPLES, "labels": torch.tensor(float(index % 3))}

    def _note_worker(self) -> None:
        self.noted = True
        worker = get_worker_info()
        if worker is None:
            return
        # multiprocessing numbers the children of a process in the order in which it starts them.
        name = multiprocessing.current_process().name
        note = Path(WORKERS_FOLDER) / f"{name}.json"
        note.write_text(json.dumps([worker.id, worker.seed]), encoding="utf-8")


def worker_starts() -> list[tuple[str, str]]:
    """Give the notes of the workers, in the order in which they were started."""
    notes = Path(WORKERS_FOLDER).glob("*.json")
    ordered = sorted(notes, key=lambda note: int(note.stem.rpartition("-")[2]))
    return [(note.stem, note.read_text(encoding="utf-8")) for note in ordered]


def training_loader() -> DataLoader[dict[str, torch.Tensor]]:
    return DataLoader(Samples(), batch_size=BATCH_SIZE, shuffle=True, num_workers=WORKERS)


def evaluation_loader() -> DataLoader[dict[str, torch.Tensor]]:
    return DataLoader(Samples(4), batch_size=BATCH_SIZE)


def optimizer_and_scheduler(model: nn.Module) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def updates_at(batch: int) -> bool:
    """Say whether the group ends with this batch (0-based) of an epoch."""
    return (batch + 1) % ACCUMULATION == 0 or batch + 1 == SAMPLES // BATCH_SIZE


def is_last(batch: int) -> bool:
    """Say whether this is the last batch (0-based) of an epoch."""
    return batch + 1 == SAMPLES // BATCH_SIZE


class Diary:
    """What the user's own code sees while it trains."""

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {
            name: [] for name in ("losses", "evaluation losses", "gradient norms", "random states")
        }
        self._batches = 0

    def note_loss(self, loss: torch.Tensor, **objects: Any) -> None:
        """Note the loss of a micro-batch; once, look at the objects of the training that goes on."""
        self.notes["losses"].append(_bits(loss))
        self._batches += 1
        if self._batches == LOOK_AT_BATCH and objects:
            self._look_inside(objects)

    def note_evaluation(self, loss: torch.Tensor) -> None:
        self.notes["evaluation losses"].append(_bits(loss))

    def note_gradients(self, model: nn.Module) -> None:
        """Note the norm of the gradients as the optimizer will see them."""
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(g) for g in gradients])
        )
        self.notes["gradient norms"].append((len(gradients), norm.item().hex()))

    def note_random_state(self) -> None:
        self.notes["random states"].append(random_states())

    def _look_inside(self, objects: Mapping[str, Any]) -> None:
        self.notes["loaders and iterators in training"] = loader_types()
        self.notes["types in training"] = {name: type_name(o) for name, o in objects.items()}
        self.notes["pickles in training"] = pickles(objects)


class BlindDiary(Diary):
    """A diary that looks at no objects; for models that cannot be pickled."""

    def _look_inside(self, objects: Mapping[str, Any]) -> None:
        pass


def _bits(value: torch.Tensor) -> str:
    """Give a number so that every bit shows."""
    return float(value.item()).hex()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    model.eval()
    with torch.no_grad():
        yield
    model.train()


def random_states() -> dict[str, str]:
    """Give a digest of each global random state."""
    states = {"torch": torch.get_rng_state().tolist(), "random": random.getstate()}
    states["numpy"] = [np.asarray(part).tolist() for part in np.random.get_state()]
    return {
        name: hashlib.sha256(repr(state).encode()).hexdigest() for name, state in states.items()
    }


def loader_types() -> list[str]:
    """Give the types of all loaders and loader iterators that are alive, wherever they are held."""
    kinds = (DataLoader, _BaseDataLoaderIter)
    alive = (o for o in gc.get_objects() if issubclass(type(o), kinds))
    return sorted(type_name(o) for o in alive)


def pickles(objects: Mapping[str, Any]) -> dict[str, bytes]:
    """Give each object as `torch.save` writes it."""
    written = {}
    for name, value in objects.items():
        buffer = io.BytesIO()
        torch.save(value, buffer)
        written[name] = buffer.getvalue()
    return written


def type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
