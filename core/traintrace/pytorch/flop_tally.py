"""What was counted of one step, from its first watched call until it is complete."""

from collections import Counter
from dataclasses import dataclass, field

from traintrace.facts import WARMUP
from traintrace.flopfacts import CountedStep
from traintrace.recording.steps import StepCapture


@dataclass(slots=True)
class StepTally:
    """What was seen of one step.

    Attributes:
        capture: The step; its sizes are read when it has ended.
        forward, backward: Operations by number format.
        recomputed: Operations that were done again in backward.
    """

    capture: StepCapture
    forward: Counter[str] = field(default_factory=Counter)
    backward: Counter[str] = field(default_factory=Counter)
    recomputed: int = 0

    @property
    def is_whole(self) -> bool:
        """Say whether the step has ended, and stands for others."""
        return self.capture.ended and not self.capture.flags & WARMUP

    def counted(self, step: int) -> CountedStep:
        """Give the count of the step, which has this number."""
        capture = self.capture
        return CountedStep(
            step=step,
            micro_batches=capture.micro_batches,
            samples=capture.samples,
            tokens=capture.tokens,
            padded_tokens=capture.padded_tokens,
            flops=dict(self.forward + self.backward),
            backward_flops=sum(self.backward.values()),
            recomputed_flops=self.recomputed,
        )
