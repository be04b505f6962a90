"""What to change, said with the configuration that the run really had."""

import math

from traintrace.facts import Setup
from traintrace_analysis.wording import milliseconds


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


def input_action(setup: Setup, wait_ms: float, step_ms: float) -> str:
    """Say how to feed this run faster."""
    loader, cores = setup.loader, setup.cpu_count
    if loader.workers is None:
        return (
            "The batches do not come from a torch DataLoader that could be read: prepare them "
            "ahead in a background thread or process, or make preparing one cheaper."
        )
    needed = workers_to_hide(loader.workers, wait_ms, step_ms)
    affordable = needed is not None and (cores is None or needed <= cores)
    if loader.workers == 0:
        count = needed if affordable and needed is not None else cores or 4
        advice = f"Set num_workers={count} in the DataLoader (now 0: batches are made in the training loop)."
    elif affordable:
        advice = f"Raise num_workers from {loader.workers} to {needed}."
    else:
        advice = f"The {loader.workers} workers cannot keep up."
    if not affordable:
        limit_text = f"{cores} cores" if cores is not None else "more workers"
        advice += (
            f" {limit_text.capitalize()} alone cannot hide it: make each sample cheaper, for "
            "instance by decoding, resizing or tokenising once beforehand."
        )
    if loader.workers and loader.prefetch_factor is not None and loader.prefetch_factor < 4:
        advice += f" If waits come in bursts, raise prefetch_factor above {loader.prefetch_factor}."
    return advice


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


def epoch_action(setup: Setup, start_ms: float) -> str:
    """Say how to start epochs faster."""
    loader = setup.loader
    if loader.workers and not loader.persistent:
        return (
            "Set persistent_workers=True in the DataLoader: the workers are started anew for every "
            f"epoch, {milliseconds(start_ms)} each time."
        )
    if loader.workers:
        return (
            "The workers persist, so the time is spent elsewhere: look at the sampler, the shuffle "
            "and what the dataset does when an iterator begins."
        )
    return (
        "Look at what making an iterator does: reading indices, shuffling, opening files. Do it once "
        "in the dataset's __init__, or make epochs longer."
    )
