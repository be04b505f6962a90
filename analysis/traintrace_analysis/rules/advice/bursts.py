"""What to do about a few batches that are slow by themselves."""

import math
from typing import Final

from traintrace_analysis.rules.advice.supply import Supply
from traintrace_analysis.wording import milliseconds

_DEEPEST_BUFFER: Final = 64  # batches; more cost memory that a slow sample is not worth


def buffer_to_hide(workers: int, prefetch: int, burst_ms: float, work_ms: float) -> int | None:
    """Give how many batches made ahead would hide a batch that is slow by itself.

    A loader with W workers and prefetch_factor P starts each batch W * P steps before it is needed,
    and hides of a slow one what the steps take meanwhile. A wait of `burst_ms` is what is left over.

    Returns:
        None if the steps do no work of their own.
    """
    if work_ms <= 0.0:
        return None
    return workers * prefetch + math.ceil(burst_ms / work_ms)


def burst_action(supply: Supply, needed: int | None, burst_ms: float) -> str:
    """Say how to make slow batches cheaper, or to hide them.

    Args:
        supply: What the loader delivered.
        needed: Workers that would hide an even wait of the same sum.
        burst_ms: Length of a long wait.
    """
    workers, prefetch = supply.workers or 0, supply.prefetch
    advice = (
        f"A few batches are slow, {milliseconds(burst_ms)}: find their samples (large files, first "
        "reads, retries) and make them cheaper."
    )
    ahead = buffer_to_hide(workers, prefetch, burst_ms, supply.rest_ms)
    if ahead is None or needed is None or ahead > _DEEPEST_BUFFER:
        return advice + " No reasonable number of batches made ahead hides waits this long."
    wanted = max(workers or needed, 1)
    factor = max(prefetch, math.ceil(ahead / wanted))
    now = f"{workers} with {prefetch}" if workers else "0 workers"
    return f"{advice} Or make {ahead} batches ahead: num_workers={wanted} with prefetch_factor={factor} (now {now})."
