"""How much a rank computed: from counted steps, from what the user said, or from 6ND."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from traintrace.facts import RankFacts
from traintrace.flopfacts import CountedStep, FlopFacts
from traintrace_analysis.efficiency.model import Work

# What work may be proportional to; where two fit equally well, the first.
BASES: Final = ("samples", "padded_tokens", "tokens", "micro_batches")
_SHARDED: Final = ("fsdp", "fsdp2", "deepspeed")
NOTHING_KNOWN: Final = (
    'the operations of a step are not known; give flops_per_step="count", or their number'
)


def measure_work(rank: RankFacts, training_format: str | None) -> Work | str:
    """Give the floating-point work of the steps of `rank` that count, or why it is not known.

    Args:
        rank: What it recorded.
        training_format: The number format that its matrix products are in, for work that was not counted.
    """
    flops, steps = rank.flops or FlopFacts(), rank.totals.steps
    if not steps:
        return "no step was completed"
    if flops.flops_per_step is not None:
        total = round(Fraction(flops.flops_per_step) * steps)
        return Work("given", {training_format: total}, total, total, None, steps)
    given_up = rank.totals.steps_abandoned
    counted = [step for step in flops.counted if step.step > given_up and step.total > 0]
    if counted:
        return _extrapolated(rank, counted, flops.uncounted)
    if flops.not_counted:
        return f"no step was counted: {flops.not_counted}"
    return _by_parameters(rank, training_format)


def _extrapolated(
    rank: RankFacts, counted: Sequence[CountedStep], uncounted: tuple[str, ...]
) -> Work | str:
    """Scale the counted steps to all, by what their work is most nearly proportional to."""
    fits = [
        (spread, basis) for basis in BASES if (spread := _spread(rank, counted, basis)) is not None
    ]
    if not fits:
        return "the sizes of the counted steps are not known"
    # To a thousandth: an operation or two beside the batch do not decide.
    _, basis = min(fits, key=lambda fit: (round(1_000 * fit[0]), BASES.index(fit[1])))
    done: int = getattr(rank.totals, basis)
    seen = sum(getattr(step, basis) for step in counted)
    by_format: dict[str | None, int] = {}
    for name in dict.fromkeys(name for step in counted for name in step.flops):
        flops = sum(step.flops.get(name, 0) for step in counted)
        by_format[name] = round(Fraction(flops * done, seen))
    each = [Fraction(step.total, getattr(step, basis)) for step in counted]
    again = sum(step.recomputed_flops for step in counted)
    return Work(
        convention="counted",
        by_format=by_format,
        low=round(min(each) * done),
        high=round(max(each) * done),
        basis=basis,
        steps=rank.totals.steps,
        counted_steps=len(counted),
        recomputed_share=again / sum(step.total for step in counted),
        uncounted=uncounted,
    )


def _spread(rank: RankFacts, counted: Sequence[CountedStep], basis: str) -> float | None:
    """Give how much the work per unit of `basis` differs between counted steps; None if it cannot serve."""
    if not getattr(rank.totals, basis):
        return None
    sizes = [getattr(step, basis) for step in counted]
    if not all(size is not None and size > 0 for size in sizes):
        return None
    each: list[float] = [step.total / size for step, size in zip(counted, sizes, strict=True)]
    return max(each) / min(each) - 1.0


def _by_parameters(rank: RankFacts, training_format: str | None) -> Work | str:
    setup, totals = rank.setup, rank.totals
    tokens = totals.padded_tokens or totals.tokens
    if setup.dense is None:
        return NOTHING_KNOWN
    if setup.strategy in _SHARDED:
        return f"a rank of {setup.strategy} holds pieces of the model, so 6ND does not tell; give flops_per_step"
    if not tokens:
        return "6ND needs the number of tokens, which the batches do not tell; give flops_per_step"
    total = 6 * setup.dense.parameters * tokens
    return Work("6ND", {training_format: total}, total, total, None, totals.steps)
