"""Hold integrations against each other: the same recipe must read the same, whatever ran it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from traintrace.testing.checking import EXCESS_NS_PER_STEP, Row
from traintrace.testing.conformance import Outcome

# How far apart measured / truth of one account may be.
RATIO_POINTS: Final = 0.03
_COUNTS: Final = (
    "steps",
    "micro-batches",
    "samples",
    "forward calls",
    "backward calls",
    "optimizer calls",
    "checkpoint calls",
)


def compare(suites: Mapping[str, Iterable[Outcome]]) -> list[str]:
    """Compare outcomes of the same recipe on the host's clock, integration by integration.

    Truth differs from run to run (a sleep overshoots), so accounts are compared by what was measured
    beyond it: within 3 % of the truth, 0.5 ms per step, or the framework's own work as declared.

    Returns:
        A sentence per disagreement.
    """
    by_recipe: dict[str, dict[str, dict[str, Row]]] = {}
    for name, outcomes in suites.items():
        for outcome in outcomes:
            if outcome.clock == "host":
                table = {row.name: row for row in outcome.rows}
                by_recipe.setdefault(outcome.recipe.label, {})[name] = table
    return [
        f"{recipe}: {sentence}"
        for recipe, tables in by_recipe.items()
        for sentence in (*_unequal_counts(tables), *_distant_accounts(tables))
    ]


def _unequal_counts(tables: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    for count in _COUNTS:
        found = {name: table[count].measured for name, table in tables.items() if count in table}
        if len(set(found.values())) > 1:
            yield f"{count} are {found}"


def _distant_accounts(tables: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    names = dict.fromkeys(row.name for table in tables.values() for row in table.values())
    for account in names:
        rows = [(name, table[account]) for name, table in tables.items() if account in table]
        excesses = {
            name: (row.difference, row)
            for name, row in rows
            if row.unit == "ms/step" and row.difference is not None and row.allowed is not None
        }
        yield from _distant(account, excesses)


def _distant(account: str, excesses: Mapping[str, tuple[float | None, Row]]) -> Sequence[str]:
    known = {name: (excess or 0.0, row) for name, (excess, row) in excesses.items()}
    if len(known) < 2:
        return ()
    lowest = min(known, key=lambda name: known[name][0])
    highest = max(known, key=lambda name: known[name][0])
    (low, low_row), (high, high_row) = known[lowest], known[highest]
    limit = max(
        RATIO_POINTS * min(low_row.truth, high_row.truth),
        EXCESS_NS_PER_STEP / 1e6,
        high_row.allowed or 0.0,
    )
    if high - low <= limit:
        return ()
    return (
        f"{account} is {high:.3f} ms per step beyond the truth in {highest}, "
        f"{low:.3f} in {lowest}; {limit:.3f} apart is allowed",
    )
