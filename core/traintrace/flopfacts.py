"""What is known of the floating-point work of one rank: counted, given, or not known and why.

One multiplication with its addition is two operations, as torch counts and as vendors state their peaks.
Number formats are named as the peaks are: "fp64", "fp32", "tf32", "bf16", "fp16", "fp8".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# What `flops_per_step` is set to so that a few real steps are counted.
COUNT: Final = "count"
# The range of operations of a step, and of a peak, that is taken for meant.
LEAST: Final = 1e-15
MOST: Final = 1e30


@dataclass(frozen=True, slots=True)
class CountedStep:
    """The matrix work of one real step, as it ran: all its micro-batches, the model as it was called.

    Attributes:
        step: Its number.
        samples, tokens, padded_tokens: What was trained on in it; None if unknown.
        flops: Operations of forward and backward by number format; nothing is in it that was computed
            only because it had not been kept (activation checkpointing).
        backward_flops: The part of all `flops` that lay in backward.
        recomputed_flops: What was computed again in backward, on top of `flops`.
    """

    step: int
    micro_batches: int
    samples: int | None
    tokens: int | None
    padded_tokens: int | None
    flops: Mapping[str, int]
    backward_flops: int
    recomputed_flops: int

    @property
    def total(self) -> int:
        """Give the operations over all number formats."""
        return sum(self.flops.values())


@dataclass(frozen=True, slots=True)
class FlopFacts:
    """What one rank knows of its floating-point work.

    Attributes:
        counted: Steps that were counted, by their number; they take longer than others.
        uncounted: Names of operations that ran in them and whose work nobody can count from outside.
        not_counted: Why none was counted, though the user asked for it; "" otherwise.
        flops_per_step: What the user says that one step takes on this rank; None if nothing was said.
        peak_tflops: What the user says that the device can do, in 1e12 operations a second; None likewise.
        tf32: Whether matrix products of float32 may run in TF32 where the device is one of NVIDIA's; None if
            nobody looked.
    """

    counted: tuple[CountedStep, ...] = ()
    uncounted: tuple[str, ...] = ()
    not_counted: str = ""
    flops_per_step: float | None = None
    peak_tflops: float | None = None
    tf32: bool | None = None

    @classmethod
    def from_json(cls, content: object) -> "FlopFacts | None":
        """Read what `dataclasses.asdict` gave; None if there is nothing, and without what cannot be read."""
        if not isinstance(content, dict) or not content:
            return None
        steps = content.get("counted")
        read = [_counted_from(one) for one in steps] if isinstance(steps, list | tuple) else []
        tf32, names = content.get("tf32"), content.get("uncounted")
        return cls(
            counted=tuple(step for step in read if step is not None),
            uncounted=tuple(map(str, names)) if isinstance(names, list | tuple) else (),
            not_counted=str(content.get("not_counted") or ""),
            flops_per_step=_positive(content.get("flops_per_step")),
            peak_tflops=_positive(content.get("peak_tflops")),
            tf32=tf32 if isinstance(tf32, bool) else None,
        )


@dataclass(frozen=True, slots=True)
class DenseModel:
    """What 6ND needs to know of a transformer that is known to be dense.

    Attributes:
        parameters: N: the parameters that every token is multiplied with once in forward. Tables that
            are only looked up are left out, unless they are the output layer as well.
        kind: Which model it is, as its configuration says, e.g. "llama".
    """

    parameters: int
    kind: str = ""

    @classmethod
    def from_json(cls, content: object) -> "DenseModel | None":
        """Read what `dataclasses.asdict` gave; None if there is nothing that can be used."""
        if not isinstance(content, dict) or not isinstance(content.get("parameters"), int):
            return None
        return cls(content["parameters"], str(content.get("kind") or ""))


def _counted_from(content: object) -> CountedStep | None:
    if not isinstance(content, dict) or not isinstance(content.get("flops"), dict):
        return None
    known: dict[str, Any] = {
        name: value if isinstance(value := content.get(name), int) else None
        for name in ("samples", "tokens", "padded_tokens")
    }
    numbers = [content.get(name) for name in ("step", "micro_batches", "backward_flops")]
    flops = content["flops"]
    if not all(isinstance(value, int) for value in (*numbers, *flops.values())):
        return None
    again = content.get("recomputed_flops")
    return CountedStep(
        step=content["step"],
        micro_batches=content["micro_batches"],
        flops={str(name): value for name, value in flops.items()},
        backward_flops=content["backward_flops"],
        recomputed_flops=again if isinstance(again, int) else 0,
        **known,
    )


def _positive(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and LEAST <= value <= MOST else None  # type: ignore[arg-type, operator]
