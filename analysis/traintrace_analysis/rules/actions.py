"""What to change, said with the configuration that the run really had."""

import math
from dataclasses import dataclass

from traintrace.facts import Setup
from traintrace_analysis.wording import count, milliseconds, seconds

_DEEPEST_BUFFER = 64  # batches; more cost memory that a slow sample is not worth


def workers_to_hide(workers: int, wait_ms: float, step_ms: float) -> int | None:
    """Give how many loader workers would deliver a batch within the rest of the step.

    With no worker, one batch costs the wait itself. With W workers the loader is the bottleneck
    and delivers one batch a step, so a worker needs W steps for one. W' workers hide that when
    each batch is ready within the step without its wait.

    Returns:
        None if the step consists of waiting alone.
    """
    rest = step_ms - wait_ms
    if rest <= 0.0:
        return None
    production = wait_ms if workers == 0 else workers * step_ms
    return max(workers + 1, math.ceil(production / rest))


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


def input_action(
    setup: Setup, wait_ms: float, step_ms: float, *, burst_ms: float | None = None
) -> str:
    """Say how to feed this run faster.

    Args:
        setup: What the run was started with.
        wait_ms: Mean wait of a step.
        step_ms: Mean length of a step, its wait included.
        burst_ms: Length of a long wait where a few steps wait for most of the time, else None.
    """
    loader, cores = setup.loader, setup.cpu_count
    if loader.workers is None:
        return (
            "The batches do not come from a torch DataLoader that could be read: prepare them "
            "ahead in a background thread or process, or make preparing one cheaper."
        )
    needed = workers_to_hide(loader.workers, wait_ms, step_ms)
    if burst_ms is not None:
        return _burst_action(setup, needed, burst_ms, step_ms - wait_ms)
    if needed is not None and (cores is None or needed <= cores):
        if loader.workers == 0:
            return (
                f"Set num_workers={needed} in the DataLoader (now 0: batches are made in the "
                "training loop)."
            )
        return f"Raise num_workers from {loader.workers} to {needed}."
    if loader.workers == 0:
        advice = (
            f"Set num_workers={cores or 4} in the DataLoader (now 0: batches are made in the "
            "training loop)."
        )
    else:
        advice = f"The {count(loader.workers, 'worker')} cannot keep up."
    there = f"the {count(cores, 'core')} cannot hide it" if cores else "workers cannot hide it"
    advice += (
        f" If samples keep a CPU busy, {there}: make each sample cheaper, for instance by decoding, "
        "resizing or tokenising once beforehand."
    )
    if needed is not None:
        advice += f" If they wait for a disk or a network, {needed} workers hide it."
    return advice


def _burst_action(setup: Setup, needed: int | None, burst_ms: float, work_ms: float) -> str:
    loader = setup.loader
    workers = loader.workers or 0
    prefetch = loader.prefetch_factor or 2  # DataLoader's own default
    advice = (
        f"A few batches are slow, {milliseconds(burst_ms)}: find their samples (large files, first "
        "reads, retries) and make them cheaper."
    )
    ahead = buffer_to_hide(workers, prefetch, burst_ms, work_ms)
    if ahead is None or needed is None or ahead > _DEEPEST_BUFFER:
        return advice + " No reasonable number of batches made ahead hides waits this long."
    wanted = max(workers, needed if workers == 0 else workers, 1)
    factor = max(prefetch, math.ceil(ahead / wanted))
    return (
        advice
        + f" Or make {ahead} batches ahead: num_workers={wanted} with prefetch_factor={factor} "
        f"(now {f'{workers} with {prefetch}' if workers else '0 workers'})."
    )


def transfer_action(setup: Setup) -> str:
    """Say how to make transfers cheaper or hide them."""
    if setup.loader.pin_memory is False:
        return (
            "Set pin_memory=True in the DataLoader and pass non_blocking=True to .to(device), so "
            "that copies overlap with compute."
        )
    if setup.loader.pin_memory:
        return (
            "Memory is pinned already: pass non_blocking=True to .to(device), send smaller types "
            "(uint8 images, bfloat16) and convert on the device."
        )
    return "Pin host memory, copy with non_blocking=True, and send smaller types to the device."


def residual_action(largest: str, region: str | None) -> str:
    """Say where to look, by the largest part of the unattributed time."""
    if largest == "user" and region is not None:
        return f"Look into your region {region!r}: it is the largest of the regions in the step."
    return {
        "batch_prep": "Look at what runs between the fetch and the forward: counting tokens, "
        "masking, moving data. Move it into the dataset or collate function.",
        "communication": "Collectives are called from the training loop: call them less often, "
        "for instance reduce metrics every N steps.",
        "clip": "Gradient clipping is costly here: use foreach=True, or clip by value.",
        "callbacks": "Other callbacks do work on every step: find the slow one and let it act every "
        "N steps.",
        "user": "The regions that you marked take this time: split them to see which part.",
    }.get(
        largest,
        "Mark suspicious parts with traintrace.region(name) to split this time; .item(), printing and "
        "metrics on every step are the usual causes.",
    )


@dataclass(frozen=True, slots=True)
class EpochAdvice:
    """How to start epochs faster, and how much of their cost that would remove.

    Attributes:
        removes_s: Seconds of the run that the advice is about.
        removes_at_most: True if following it may remove less.
    """

    action: str
    removes_s: float
    removes_at_most: bool


def epoch_advice(setup: Setup, making_s: float, fetch_s: float, starts: int) -> EpochAdvice:
    """Say how to start epochs faster, by what is slow about them.

    Args:
        setup: What the run was started with.
        making_s: Seconds that went to making iterators and workers, over all epochs.
        fetch_s: Seconds that first fetches took beyond a steady one.
        starts: Number of epochs begun.
    """
    workers = setup.loader.workers
    anew = bool(workers) and not setup.loader.persistent
    making_each, fetch_each = (milliseconds(s * 1e3 / starts) for s in (making_s, fetch_s))
    if making_s < fetch_s:
        action = (
            f"The first batch of an epoch takes {fetch_each} longer than the others: look at what "
            "the dataset does when an iterator begins (its __iter__, opening files, filling a "
            "shuffle buffer) and do it once."
        )
        if anew:
            action += (
                f" persistent_workers=True saves the {making_each} of making workers, and their "
                "start in the first fetch."
            )
        return EpochAdvice(action, making_s + fetch_s, True)
    if anew:
        removable_s = making_s * (starts - 1) / starts  # the first epoch makes them all the same
        action = (
            f"Set persistent_workers=True in the DataLoader: workers are made anew for every epoch, "
            f"{making_each} each time. That saves {seconds(removable_s)}."
        )
        return EpochAdvice(action, removable_s, False)
    if workers:
        action = (
            "The workers persist, so the time is spent elsewhere: look at the sampler, the shuffle "
            "and what the dataset does when an iterator begins."
        )
    else:
        action = (
            f"Making an iterator takes {making_each}: reading indices, shuffling, opening files. Do "
            "it once in the dataset's __init__, or make epochs longer."
        )
    return EpochAdvice(action, making_s + fetch_s, True)
