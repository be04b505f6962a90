"""What a rule consists of: what it examines, what stops it, and what people must know about it."""

from collections.abc import Callable
from dataclasses import dataclass

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding


@dataclass(frozen=True, slots=True)
class Kind:
    """What one kind of finding means, for people: `docs/findings.md` is made of these.

    Attributes:
        name: The kind as it stands in JSON, in capitals.
        means: What is going on when this is found. fires: when exactly it is found, limits in words.
        never: What the finding does not claim. action: what usually helps.
        limits: Names of the thresholds that decide, as in `thresholds.TABLE`.
    """

    name: str
    means: str
    fires: str
    never: str
    action: str
    limits: tuple[str, ...]


def always(context: Context) -> str:
    """Say that nothing stops a rule: what it needs is there in every run."""
    del context
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is examined.

    Attributes:
        topic: What is looked at, to follow "No cause found in", e.g. "waits for batches".
        kinds: What may be found.
        examine: Gives the findings of a run; none if nothing is wrong. Called only if `missing` is "".
        missing: Says why this run does not allow the rule, to follow "not measured:"; "" if it does.
        needs_steps: False if the rule can judge a run with too few steady steps for statistics; the
            context then may have no common steps at all.
    """

    topic: str
    kinds: tuple[Kind, ...]
    examine: Callable[[Context], list[Finding]]
    missing: Callable[[Context], str] = always
    needs_steps: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """Rules that share one answer in the report.

    Attributes:
        doubt: Says why the family cannot be called clean though no rule found a cause; "" if it can.
        essential: Those of `rules` without which the family is not measured, whatever the others saw.
    """

    name: str
    rules: tuple[Rule, ...]
    doubt: Callable[[Context], str] = always
    essential: tuple[Rule, ...] = ()
