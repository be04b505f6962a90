"""What a recipe is: its sizes, its delays, and the counts that follow from them. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Delays:
    """How long each part is made to last, at least [ms].

    Attributes:
        data: Per batch, where it is collated: in a worker if there are any.
        evaluation: Per forward of an evaluation.
    """

    data: float = 5
    transfer: float = 3
    forward: float = 4
    backward: float = 5
    optimizer: float = 6
    evaluation: float = 3
    checkpoint: float = 7


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is trained. The last batch of an epoch is one sample short.

    Attributes:
        accumulation: Micro-batches per update; the last group of an epoch may be shorter.
        batches: Batches per epoch.
        evaluate_every: Evaluate after so many full groups of an epoch; None never.
        checkpoint_every: Write a checkpoint after so many updates; None never.
        carries_short_groups: A last group that is short goes on in the next epoch; the run ends with
            its last full group.
    """

    accumulation: int = 1
    batches: int = 9
    batch_size: int = 2
    epochs: int = 1
    workers: int = 0
    persistent: bool = False
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    delays: Delays = Delays()
    carries_short_groups: bool = False

    @property
    def steps_per_epoch(self) -> int:
        """Give the updates of one epoch."""
        full, left = divmod(self.batches, self.accumulation)
        return full + (left > 0 and not self.carries_short_groups)

    @property
    def steps(self) -> int:
        """Give the updates of the whole run."""
        return self.steps_per_epoch * self.epochs

    @property
    def micro_batches(self) -> Sequence[int]:
        """Give the micro-batches of each step: 9 batches at 4 are 4, 4, 1."""
        return list(map(len, self._groups()))

    @property
    def samples(self) -> Sequence[int]:
        """Give the samples of each step."""
        return list(map(sum, self._groups()))

    def _groups(self) -> Sequence[Sequence[int]]:
        """Give the batch sizes of each step."""
        epoch = [self.batch_size] * (self.batches - 1) + [self.batch_size - 1]
        passes = [epoch * self.epochs] if self.carries_short_groups else [epoch] * self.epochs
        size = self.accumulation
        groups = [sizes[i : i + size] for sizes in passes for i in range(0, len(sizes), size)]
        return groups[: self.steps]

    def evaluates_after(self, step: int) -> bool:
        """Say whether the update with the 1-based number `step` is followed by an evaluation."""
        if self.evaluate_every is None:
            return False
        groups = (step - 1) % self.steps_per_epoch + 1
        is_full = groups * self.accumulation <= self.batches
        return is_full and groups % self.evaluate_every == 0

    def checkpoints_after(self, step: int) -> bool:
        """Say whether the update with the 1-based number `step` is followed by a checkpoint."""
        return self.checkpoint_every is not None and step % self.checkpoint_every == 0

    @property
    def evaluations(self) -> int:
        """Give the evaluations of the whole run."""
        return sum(self.evaluates_after(step + 1) for step in range(self.steps))

    @property
    def checkpoints(self) -> int:
        """Give the checkpoints of the whole run."""
        return sum(self.checkpoints_after(step + 1) for step in range(self.steps))

    @property
    def label(self) -> str:
        """Give the recipe's own parameters on one line: no delays, nothing of an integration."""
        apart = ("delays", "carries_short_groups")
        names = [field.name for field in fields(self) if field.name not in apart]
        return " ".join(f"{name}={getattr(self, name)}" for name in names)
