"""The part of a run that no rule judges: start-up, warm-up, shutdown, and what lies between steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace.facts import RankFacts, Totals
from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.wording import count, listed, milliseconds, percent, seconds

# What lies between steps, comes back as long as a run lasts, and is judged by no rule.
RECURRING: Final = ("aborted", "prediction", "waits between steps")
# What a run pays once: a longer run has the same seconds of it.
ONCE: Final = ("startup", "warmup", "resume_skip", "tuning", "shutdown")

_TOLD: Final = {
    "startup": "start-up, before the first batch was asked for",
    "warmup": "warm-up",
    "resume_skip": "skipping data after a resume",
    "tuning": "tuning (batch-size and learning-rate finders)",
    "shutdown": "shutdown, after the last step",
    "aborted": "steps that were dropped",
    "prediction": "prediction",
    "waits between steps": "waiting for other ranks between steps",
}
_DO: Final = {
    "startup": "Look at what runs between starting the trace and the first batch: building the "
    "model, indexing the dataset, downloads. If this was a trial run, trace more steps: start-up "
    "is paid once.",
    "warmup": "Trace more steps, since a warm-up is paid once.",
    "resume_skip": "Save the state of the sampler or of a stateful DataLoader, so that resuming "
    "need not read the skipped data.",
    "tuning": "Tuning is paid once: fix the value it found, or trace more steps.",
    "shutdown": "Look at what runs after the last step inside the trace: a last evaluation, saving, "
    "uploads. Mark it with tracer.evaluating() or tracer.checkpointing().",
    "aborted": "Look at why steps are dropped: exceptions, or groups of micro-batches that never "
    "reach an update.",
    "prediction": "Predict less often or on less data.",
    "waits between steps": "Look for what one rank does alone between steps while the others wait: "
    "evaluating, saving, logging on rank 0.",
}
# What usually makes first steps slow, by the account that grew.
WARMUP_CAUSES: Final = {
    "input_wait": "starting loader workers, first reads from a cold disk or network, opening files",
    "h2d": "making the device context, the first use of pinned memory",
    "forward": "compilation, choosing kernels, the allocator's first growth",
    "backward": "compilation, choosing kernels, the allocator's first growth",
    "optimizer": "making the optimizer's state",
}


@dataclass(frozen=True, slots=True)
class Unexamined:
    """How much of one rank's wall time no rule judges.

    Attributes:
        ns: Nanoseconds by name: accounts, and "warmup" for the warm-up steps.
        warmup_why: What the warm-up steps were slow in, as a sentence; empty without a warm-up.
        warmup_in: The account that was; empty if none stands out.
    """

    wall_ns: int
    ns: Mapping[str, int]
    warmup_why: str = ""
    warmup_in: str = ""

    def share(self, *names: str) -> float:
        """Give the share of the wall time that `names` took together; all of it without names."""
        spent = sum(self.ns.get(name, 0) for name in names or self.ns)
        return spent / self.wall_ns if self.wall_ns else 0.0

    @property
    def largest(self) -> str:
        """Name of the largest part."""
        return max(self.ns, key=lambda name: self.ns[name])

    def headline(self) -> str:
        """Say which part is the largest, and its share."""
        return f"{percent(self.share(self.largest))} of the run was {_TOLD[self.largest]}."

    def action(self) -> str:
        """Say what to do about the largest part."""
        action = _DO[self.largest]
        if self.largest == "warmup" and self.warmup_in in WARMUP_CAUSES:
            usual = WARMUP_CAUSES[self.warmup_in]
            action += (
                f" If runs restart often, shorten it; in {self.warmup_in} it is usually {usual}."
            )
        return action

    def told(self) -> str:
        """Say how much of the run the verdict does not cover, part by part."""
        big = sorted((n for n in self.ns if self.share(n) >= 0.01), key=lambda n: -self.ns[n])
        parts = [
            f"{'warm-up' if name == 'warmup' else name} {seconds(self.ns[name] / 1e9)}"
            for name in big
        ]
        text = (
            f"{percent(self.share())} of the run, {seconds(sum(self.ns.values()) / 1e9)} of "
            f"{seconds(self.wall_ns / 1e9)}, is judged by no rule: {listed(parts)}."
        )
        return f"{text} {self.warmup_why}" if "warmup" in big else text


def recurring_ns(totals: Totals) -> dict[str, int]:
    """Give the nanoseconds of each of `RECURRING`."""
    known, inside = totals.account_ns, totals.inside_ns
    return {
        "aborted": known.get("aborted", 0),
        "prediction": known.get("prediction", 0),
        "waits between steps": known.get("communication", 0) - inside.get("communication", 0),
    }


def measure_unexamined(
    window: StepWindow, rank: RankFacts, context: Context | None, findings: Sequence[Finding]
) -> Unexamined:
    """Add up what no rule judges of one rank's run.

    The warm-up counts with the time inside its steps. Where starting epochs or the warm-up is a
    finding, what that names of the warm-up is billed there and not here.
    """
    known = rank.totals.account_ns
    spent = recurring_ns(rank.totals)
    spent |= {name: known.get(name, 0) for name in ONCE}
    first = window.warmup_steps
    if not first or rank.rank not in window.ranks:
        return Unexamined(rank.totals.wall_ns, spent)
    row = window.ranks.index(rank.rank)
    warm_ns = float(window.host["step_time"][row, :first].sum())
    named = [finding for finding in findings if finding.severity != "info"]
    warm_ns -= sum(f.cost_s * 1e9 for f in named if f.kind == "WARMUP_COST")
    billed = any(f.kind == "EPOCH_START_COST" for f in named)
    if billed and context is not None and context.wait is not None:
        warm_ns -= float(context.wait.excess[row, :first].sum())
    spent["warmup"] = round(max(0.0, warm_ns))
    return Unexamined(rank.totals.wall_ns, spent, *warmup_why(window, row))


def warmup_why(window: StepWindow, row: int) -> tuple[str, str]:
    """Say how slow the first steps were, and in which account, with its name."""
    first = window.warmup_steps
    step = window.host["step_time"][row]
    excess = {
        name: float(np.nanmean(values[:first]) - np.nanmean(values[first:]))
        for name in STEP_ACCOUNT_NAMES
        if (values := window.host[name][row] if name in window.host else None) is not None
        and not np.isnan(values[:first]).all()
        and not np.isnan(values[first:]).all()
    }
    if first == len(step):
        return f"No step was faster than the first {count(first, 'step')}.", ""
    began = "The first step took" if first == 1 else f"The first {count(first, 'step')} took"
    text = (
        f"{began} {milliseconds(float(step[:first].mean()) / 1e6)}"
        f"{'' if first == 1 else ' each'}, the others {milliseconds(float(step[first:].mean()) / 1e6)}"
    )
    more = float(step[:first].mean() - step[first:].mean())
    largest = max(excess, key=lambda name: excess[name], default="")
    if not largest or more <= 0.0 or excess[largest] <= 0.0:
        return f"{text}.", ""
    part = percent(min(1.0, excess[largest] / more))
    return f"{text}; {part} of the difference is {largest}.", largest
