"""Train the drafter of speculative decoding in a pipeline of threads, and see which stage holds it up.

python examples/stages_speculative.py          # the report names the slow stage and what would help
python examples/stages_speculative.py --fix    # does that, and is faster

    prefetch ──batches──> target-forward ──hidden-states──> drafter
    reads text            2 workers: the frozen target      trains to say what
                          runs over it                      the target would say

All models and gradients are real and small: about a millisecond of CPU each. What an accelerator would take is slept
(`SECONDS`), so that two cores are enough: a thread that sleeps holds no core, like one that waits for its device.
"""

import argparse
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from traintrace_plain_torch import trace

# What one batch takes on the device of each stage [s]; the target is slow.
SECONDS = {"prefetch": 0.006, "target-forward": 0.042, "drafter": 0.012}
WORKERS = 2  # that run the target; `--fix` adds one
SEQUENCES, LENGTH = 8, 16  # of one batch
HIDDEN = 32
QUEUED = 4  # batches that a queue holds


class Batch(NamedTuple):
    """Text as bytes, with what the target makes of it."""

    tokens: torch.Tensor
    hidden: torch.Tensor
    says: torch.Tensor


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen on the command line."""

    fix: bool = False
    batches: int = 400
    run_dir: Path = Path("runs")
    name: str = "stages-speculative"
    print_report: bool = True


class Target(nn.Module):
    """The large model, here a small one that is never trained: it says something, and that is to be learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, HIDDEN)
        self.layers = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, 256)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give hidden states, and the byte that the target would say next at every place."""
        hidden, _ = self.layers(self.embedding(tokens))
        return hidden, self.head(4.0 * hidden).argmax(-1)


class Drafter(nn.Module):
    """Guesses what the target says next from its hidden state one byte earlier, and the byte in between."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, HIDDEN)
        self.layers = nn.Sequential(nn.Linear(2 * HIDDEN, 64), nn.ReLU(), nn.Linear(64, 256))

    def forward(self, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Give logits for every place but the first."""
        time.sleep(SECONDS["drafter"])
        known = torch.cat((hidden[:, :-1], self.embedding(tokens[:, 1:])), dim=-1)
        logits: torch.Tensor = self.layers(known)
        return logits


class Trained(NamedTuple):
    """What a run leaves behind; a second is one of training, set-up left out."""

    losses: list[float]
    tokens_per_s: float
    run_folder: Path | None


def train(settings: Settings) -> Trained:
    """Run the pipeline: the drafter trains on this thread, the stages before it have threads of their own."""
    torch.manual_seed(0)
    target, drafter = Target().eval().requires_grad_(False), Drafter()
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=3e-3)
    workers = WORKERS + settings.fix
    losses: list[float] = []
    with trace(
        drafter,
        optimizer,
        run_dir=settings.run_dir,
        name=settings.name,
        print_report=settings.print_report,
    ) as tracer:
        batches: Any = tracer.queue(queue.Queue(QUEUED), "batches")  # <- the tracer: queues,
        states: Any = tracer.queue(queue.Queue(QUEUED), "hidden-states")
        threads = [
            threading.Thread(target=prefetch, args=(tracer, settings.batches, batches, workers))
        ]
        threads += [
            threading.Thread(target=run_target, args=(tracer, target, batches, states))
            for _ in range(workers)
        ]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        with tracer.stage("drafter") as stage:  # <- and stages
            for batch in tracer.batches(received(states, workers)):
                with tracer.step():
                    logits = drafter(batch.hidden, batch.tokens)
                    loss: Any = nn.functional.cross_entropy(
                        logits.flatten(0, 1), batch.says[:, 1:].flatten()
                    )
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    losses.append(loss.item())
                stage.done(items=SEQUENCES, tokens=batch.tokens.numel())
        spent_s = time.perf_counter() - begin
        for thread in threads:
            thread.join()
        folder = tracer.run_folder
    return Trained(losses, len(losses) * SEQUENCES * LENGTH / spent_s, folder)


def prefetch(tracer: Any, count: int, batches: Any, workers: int) -> None:
    """Cut batches out of a text: the source of a module of the standard library."""
    text = torch.frombuffer(bytearray(Path(argparse.__file__).read_bytes()), dtype=torch.uint8)
    draws = torch.Generator().manual_seed(0)
    with tracer.stage("prefetch") as stage:
        for _ in range(count):
            starts = torch.randint(len(text) - LENGTH, (SEQUENCES, 1), generator=draws)
            tokens = text[starts + torch.arange(LENGTH)].long()
            time.sleep(SECONDS["prefetch"])
            batches.put(tokens)
            stage.done(items=SEQUENCES)
        for _ in range(workers):
            batches.put(None)


def run_target(tracer: Any, target: Target, batches: Any, states: Any) -> None:
    """Run the target over batches until there are no more."""
    with tracer.stage("target-forward") as stage:
        while (tokens := batches.get()) is not None:
            with torch.no_grad():
                hidden, says = target(tokens)
            time.sleep(SECONDS["target-forward"])
            states.put(Batch(tokens, hidden, says))
            stage.done(items=SEQUENCES)
        states.put(None)


def received(states: Any, workers: int) -> Iterator[Batch]:
    """Give what the workers of the target make, until the last of them has ended."""
    while workers:
        batch = states.get()
        if batch is None:
            workers -= 1
        else:
            yield batch


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fix", action="store_true", help="one more worker for the target")
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--run-dir", type=Path, default=Path("runs"), help="folder that holds runs")
    return Settings(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    trained = train(parse())
    print(
        f"{trained.tokens_per_s:,.0f} tokens/s; loss {trained.losses[0]:.2f} -> {trained.losses[-1]:.2f}"
    )
