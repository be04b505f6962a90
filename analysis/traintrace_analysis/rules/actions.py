"""What to change, said with the configuration that the run really had."""

from dataclasses import dataclass

from traintrace.facts import Setup
from traintrace_analysis.wording import milliseconds, seconds


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
