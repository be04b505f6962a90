"""The rules of conformance: what a run must say about a recipe whose truth is known."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from traintrace import accounts, facts
from traintrace.facts import RankFacts
from traintrace.testing.integration import Integration
from traintrace.testing.settings import Recipe
from traintrace.testing.truth import ACCOUNT_OF, Part, Truth

Unit = Literal["ms/step", "count"]
Verdict = Literal["ok", "too little", "too much", "wrong", "not measured"]

COLUMNS: Final = (
    *("step", "micro_batches", "samples", "start_ns", "open_ns", "duration_ns", "flags"),
    *(f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES),
    *(f"{name}_calls" for name in accounts.PHASES),
)
# A seam lies outside the call that the recipe clocks: less than the truth is a lost or misplaced time.
MISSING_NS: Final = 10_000
# More than the truth is the framework's work between seam and call.
EXCESS_SHARE: Final = 0.02
EXCESS_NS_PER_STEP: Final = 500_000

# Waits and transfers are not counted: a framework may ask or move once per group or per batch.
_COUNTED: Final[tuple[Part, ...]] = ("forward", "backward", "optimizer", "evaluation", "checkpoint")
# What is in none of the recipe's parts ends up here too: no upper bound is asked of them.
_REMAINDERS: Final = ("residual", "other", "gap", "batch_prep", "startup", "shutdown", "callbacks")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        truth: What the recipe knows, in `unit`. measured: what the run says; None if it says nothing.
        allowed: How much more than the truth an account may hold; None if any amount is right.
        verdict: Only "too much" may be noise. "not measured" is right where it was declared.
    """

    name: str
    unit: Unit
    truth: float
    measured: float | None
    verdict: Verdict
    allowed: float | None = 0.0

    @property
    def is_right(self) -> bool:
        """Say whether the rule holds."""
        return self.verdict in ("ok", "not measured")

    @property
    def difference(self) -> float | None:
        """Give measured less truth."""
        return None if self.measured is None else self.measured - self.truth


def check(run: RankFacts, truth: Truth, recipe: Recipe, integration: Integration) -> list[Row]:
    """Hold what one rank recorded, read with `COLUMNS`, against what the clocks saw.

    Returns:
        A row per rule and account; all of them `is_right` if the run conforms.
    """
    return [
        *_sums(run),
        *_counts(run, truth, recipe, integration),
        *_accounts(run, truth, recipe, integration),
        *_steps(run, truth, integration),
    ]


def exact(name: str, truth: float, measured: float | None) -> Row:
    """Give the row of a count, which is right if it is equal."""
    return Row(name, "count", truth, measured, "ok" if measured == truth else "wrong")


def _sums(run: RankFacts) -> Iterator[Row]:
    totals, columns = run.totals, run.columns
    yield exact("accounts sum to wall [ns]", totals.wall_ns, sum(totals.account_ns.values()))
    beside = [0] * len(columns["step"])
    for span in run.spans:
        if span.step <= len(beside):
            beside[span.step - 1] += span.ns
    end, untiled = totals.start_ns, 0
    for row, duration in enumerate(columns["duration_ns"]):
        held = sum(columns[f"{name}_ns"][row] or 0 for name in accounts.STEP_ACCOUNT_NAMES)
        untiled += columns["start_ns"][row] != end or held + beside[row] != duration
        end += duration or 0
    yield exact("rows that do not tile", 0, untiled)
    yield exact("unbalanced", 0, totals.unbalanced)


def _counts(
    run: RankFacts, truth: Truth, recipe: Recipe, integration: Integration
) -> Iterator[Row]:
    totals, columns = run.totals, run.columns
    yield exact("steps", recipe.steps, totals.steps)
    yield exact("aborted", 0, totals.steps_aborted)
    yield exact("rows lost", 0, totals.dropped_rows)
    yield exact("micro-batches", sum(recipe.micro_batches), totals.micro_batches)
    yield exact("samples", sum(recipe.samples), totals.samples)
    for name, expected in (
        ("micro_batches", recipe.micro_batches),
        ("samples", recipe.samples),
    ):
        yield exact(f"rows with wrong {name}", 0, _unequal(columns[name], expected))
    looking = sum(bool((flags or 0) & facts.LOOKAHEAD) for flags in columns["flags"])
    yield exact("rows flagged lookahead", recipe.steps * integration.looks_ahead, looking)
    # That the truth is complete: an integration that trains something else proves nothing.
    yield exact("clocked micro-batches", sum(recipe.micro_batches), truth.count("forward"))
    yield exact("clocked evaluations", recipe.evaluations, truth.count("evaluation"))
    yield exact("clocked checkpoints", recipe.checkpoints, truth.count("checkpoint"))
    for account in _COUNTED:
        parts = integration.parts_in(account)
        if account in parts:
            called = sum(truth.count(part) for part in parts)
            yield exact(f"{account} calls", called, totals.calls.get(account, 0))


def _unequal(found: Sequence[int | None], expected: Sequence[int]) -> int:
    pairs = zip(found, expected, strict=False)
    return abs(len(found) - len(expected)) + sum(one != other for one, other in pairs)


def _accounts(
    run: RankFacts, truth: Truth, recipe: Recipe, integration: Integration
) -> Iterator[Row]:
    true, held = _amounts(run, truth, integration)
    scale = 1e6 * recipe.steps
    for account in dict.fromkeys((*ACCOUNT_OF.values(), *integration.unmeasured.values())):
        if account in integration.unmeasured:
            yield _absent(run, account)
        # What a framework logs is no part of the recipe.
        elif true[account] or account != "logging":
            allowed_ns = _allowed_ns(account, true[account], recipe, integration)
            verdict = _judge(account, true, held, allowed_ns)
            yield Row(
                account,
                "ms/step",
                true[account] / scale,
                held[account] / scale,
                verdict,
                None if allowed_ns is None else allowed_ns / scale,
            )


def _amounts(
    run: RankFacts, truth: Truth, integration: Integration
) -> tuple[dict[str, int], dict[str, int]]:
    """Give the nanoseconds per account or group of accounts: clocked, and measured."""
    true, held = {}, {}
    for account in {*ACCOUNT_OF.values(), *integration.unmeasured.values()}:
        leaves = accounts.GROUPS.get(account, (account,))
        true[account] = sum(truth.total_ns(part) for part in integration.parts_in(account))
        held[account] = sum(run.totals.account_ns.get(leaf, 0) for leaf in leaves)
    return true, held


def _allowed_ns(
    account: str, true_ns: int, recipe: Recipe, integration: Integration
) -> float | None:
    if account in _REMAINDERS:
        return None
    framework_ns = 1e6 * integration.framework_ms.get(account, 0) * sum(recipe.micro_batches)
    return max(EXCESS_SHARE * true_ns, EXCESS_NS_PER_STEP * recipe.steps) + framework_ns


def _judge(
    account: str, true: Mapping[str, int], held: Mapping[str, int], allowed_ns: float | None
) -> Verdict:
    excess_ns = held[account] - true[account]
    # The seam around logging lies outside its clock, and takes that little from what it happens in.
    pauses = account in ("evaluation", "checkpoint")
    taken_ns = max(0, held["logging"] - true["logging"]) if pauses else 0
    if excess_ns < -MISSING_NS - taken_ns:
        return "too little"
    return "too much" if allowed_ns is not None and excess_ns > allowed_ns else "ok"


def _absent(run: RankFacts, account: str) -> Row:
    """An account that was declared unmeasured has no value anywhere, and a reason."""
    held = run.totals.account_ns.get(account, 0)
    column = run.columns.get(f"{account}_ns", ())
    is_absent = not held and all(value is None for value in column) and account in run.unmeasured
    measured = None if is_absent else held / 1e6 / max(1, run.totals.steps)
    return Row(account, "ms/step", 0, measured, "not measured" if is_absent else "wrong")


def _steps(run: RankFacts, truth: Truth, integration: Integration) -> Iterator[Row]:
    """No step holds less of a phase than was clocked between its update and the one before."""
    for account in accounts.PHASES:
        if account in integration.unmeasured:
            continue
        held = [value or 0 for value in run.columns[f"{account}_ns"]]
        for span in run.spans:
            if span.account == account and span.step <= len(held):
                held[span.step - 1] += span.ns
        true = truth.step_ns(integration.parts_in(account), len(held))
        short = sum(h < t - MISSING_NS for h, t in zip(held, true, strict=True))
        yield exact(f"steps with too little {account}", 0, short)
