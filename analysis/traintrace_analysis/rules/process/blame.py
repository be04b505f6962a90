"""Who took the cores that a training thread waited for, and how many threads would fit."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from traintrace.facts import Setup
from traintrace_analysis.rules.process.cores import NodeCores
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count

Cause = Literal["quota", "own", "others", "unknown"]
# A part of a core that is free is of use to nobody; measurements of used cores are off by a little.
_ROUNDING: Final = 0.25


@dataclass(frozen=True, slots=True)
class Blame:
    """The cause of a wait for cores.

    Attributes:
        causes: All that apply, the first to remove first.
        threads, workers: Threads of tensor operations and loader workers per rank that would fit; None where
            the number that is set fits, or none is known.
    """

    causes: tuple[Cause, ...]
    threads: int | None
    workers: int | None
    why: str
    action: str


def blame(node: NodeCores, setup: Setup, throttled: float) -> Blame:
    """Tell the run's own threads, other processes and a quota apart.

    Args:
        node: Who used its cores.
        setup: Of the rank that waited.
        throttled: Time that its cgroup was held back over the time that it waited.
    """
    causes: list[Cause] = []
    if throttled >= limit("throttled_ratio"):
        causes.append("quota")
    # Measured from the settings: how many threads would run at once if all had work.
    if node.wanted is not None and node.wanted > node.cores + _ROUNDING:
        causes.append("own")
    if _others_compete(node):
        causes.append("others")
    found = tuple(causes) or ("unknown",)
    threads, workers = _fitting(node, setup, "others" in causes)
    return Blame(
        causes=found,
        threads=threads,
        workers=workers,
        why=" ".join(_why(cause, node, setup) for cause in found),
        action=_action(found, node, setup, threads, workers),
    )


def _others_compete(node: NodeCores) -> bool:
    """Tell whether other processes used many of the cores that this run may use."""
    if node.others is None or node.node_used is None:
        return False
    # On a large node others may have cores of their own; only a full one leaves no doubt.
    is_full = node.cpus is not None and node.node_used >= limit("cores_full") * node.cpus
    has_all = node.cpus is not None and node.cores >= limit("cores_full") * node.cpus
    return (is_full or has_all) and node.others >= limit("other_cores_share") * node.cores


def _fitting(
    node: NodeCores, setup: Setup, share_with_others: bool
) -> tuple[int | None, int | None]:
    """Give threads and workers per rank that fit its cores; None for what may stay."""
    taken = (node.others or 0.0) if share_with_others else 0.0
    mine = max(1.0, node.cores - taken) / len(node.ranks)
    busy_workers = math.ceil(node.workers_own / len(node.ranks) - _ROUNDING)
    threads = max(1, math.floor(mine - max(0, busy_workers) + _ROUNDING))
    workers = max(1, math.floor(mine + _ROUNDING) - threads)
    set_threads, set_workers = setup.omp_threads, setup.loader.workers or 0
    return (
        threads if set_threads is not None and threads < set_threads else None,
        workers if set_workers > workers else None,
    )


def _why(cause: Cause, node: NodeCores, setup: Setup) -> str:
    if cause == "quota":
        return f"The CPU quota of its container ({_cores(node.cores)} cores) was spent and held it back."
    if cause == "own":
        ranks = (
            f"{len(node.ranks)} ranks on the node use" if len(node.ranks) > 1 else "The run uses"
        )
        workers = f" and {count(node.workers, 'worker')}" if node.workers else ""
        return (
            f"{ranks} {count(node.threads or 0, 'thread')}{workers} on {_cores(node.cores)} cores."
        )
    if cause == "others":
        return f"Other processes on the node used {_cores(node.others or 0.0)} of {_cores(node.cores)} cores."
    known = node.own is not None and node.node_used is not None and setup.omp_threads is not None
    what = (
        "neither the run's threads nor other processes explain it"
        if known
        else "not enough was read to tell"
    )
    return f"Who took the core cannot be told: {what}."


def _action(
    causes: tuple[Cause, ...],
    node: NodeCores,
    setup: Setup,
    threads: int | None,
    workers: int | None,
) -> str:
    each = " for each rank" if len(node.ranks) > 1 else ""
    settings = []
    if threads is not None:
        settings.append(f"OMP_NUM_THREADS={threads} (now {setup.omp_threads}){each}")
    if workers is not None:
        settings.append(f"num_workers={workers} (now {setup.loader.workers}){each}")
    fewer = f"set {' and '.join(settings)}" if settings else ""
    if causes[0] == "quota":
        until = f"; until then {fewer}" if fewer else ""
        return f"Raise the CPU limit of the container{until}."
    if "own" in causes:
        first = (
            f"{fewer[:1].upper()}{fewer[1:]}"
            if fewer
            else "Run fewer ranks on the node, or give it more cores"
        )
        return f"{first}{'; other processes use cores as well' if 'others' in causes else ''}."
    if "others" in causes:
        until = f"; until then {fewer}, which loses less while cores are taken" if fewer else ""
        return f"End the other processes, or give the run cores of its own{until}."
    return "Look with `top -H` at what runs while training does, and give the run cores of its own."


def _cores(value: float) -> str:
    """Write "2", "1.56" or "32"; a quota may be a fraction."""
    return f"{value:.3g}"
