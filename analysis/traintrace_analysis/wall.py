"""The wall ledger: where every nanosecond of each rank's traced span went."""

from collections.abc import Mapping, Sequence

from traintrace.accounts import GROUPS, NAMES
from traintrace.facts import RankFacts
from traintrace_analysis.model import WallLedger


def build_wall(ranks: Sequence[RankFacts], rank: int | None) -> WallLedger | None:
    """Lay out the ledger of `rank`, with those of all `ranks` of its attempt beside it.

    None without a rank. Accounts that did not occur have no key.
    """
    by_rank = {facts.rank: _accounts(facts) for facts in ranks}
    if rank is None or rank not in by_rank:
        return None
    accounts = by_rank[rank]
    return WallLedger(
        rank=rank,
        attempt=next(facts.attempt for facts in ranks if facts.rank == rank),
        total_ns=sum(accounts.values()),
        accounts_ns=accounts,
        groups_ns=group_sums(accounts),
        by_rank=by_rank,
    )


def group_sums(accounts_ns: Mapping[str, int]) -> dict[str, int]:
    """Sum each group over those of its leaves that occurred; a group with none has no key."""
    sums: dict[str, int] = {}
    for group, leaves in GROUPS.items():
        present = [accounts_ns[leaf] for leaf in leaves if leaf in accounts_ns]
        if present:
            sums[group] = sum(present)
    return sums


def imbalances(ranks: Sequence[RankFacts]) -> list[str]:
    """Name every rank whose accounts do not add up to its wall time; there should be none."""
    return [
        f"rank {facts.rank}: the accounts sum to {total} ns but the traced span is "
        f"{facts.totals.wall_ns} ns"
        for facts in ranks
        if (total := sum(facts.totals.account_ns.values())) != facts.totals.wall_ns
    ]


def _accounts(facts: RankFacts) -> dict[str, int]:
    known = facts.totals.account_ns
    ordered = [name for name in NAMES if name in known]
    ordered += [name for name in known if name not in NAMES]
    return {name: int(known[name]) for name in ordered}
