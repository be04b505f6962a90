"""Who took the cores that a training thread waited for, and how many threads would fit."""

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

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


class _Fit(NamedTuple):
    """Threads and workers per rank that fit its cores; None for what may stay.

    Attributes:
        needs_workers: There are too many workers, but training waits for what they make: fewer would make it
            wait longer.
    """

    threads: int | None
    workers: int | None
    needs_workers: bool


def blame(node: NodeCores, setup: Setup, throttled: float, input_share: float) -> Blame:
    """Tell the run's own threads, other processes and a quota apart.

    Args:
        node: Who used its cores.
        setup: Of the rank that waited.
        throttled: Time that its cgroup was held back over the time that it waited.
        input_share: Share of step time that training waits for batches.
    """
    causes: list[Cause] = []
    if throttled >= limit("throttled_ratio"):
        causes.append("quota")
    # By the settings: how many threads and workers would run at once if all had work.
    # One thread is the least there is: it is not too many for a part of a core.
    if node.wanted is not None and node.wanted > max(1.0, node.cores) + _ROUNDING:
        causes.append("own")
    # A quota holds back whatever others do.
    contested = _contested(node)
    if "quota" not in causes and contested >= limit("other_cores_share") * node.cores:
        causes.append("others")
    found = tuple(causes) or ("unknown",)
    fit = _fitting(node, setup, contested if "others" in causes else 0.0, input_share)
    return Blame(
        causes=found,
        threads=fit.threads,
        workers=fit.workers,
        why=" ".join(_why(cause, node, setup) for cause in found),
        action=_action(found, node, setup, fit),
    )


def _contested(node: NodeCores) -> float:
    """Give how many of the cores that this run may use other processes used, at the least.

    On a large node others may have cores of their own; only what does not fit there was taken from this run.
    """
    if node.others is None or node.cpus is None:
        return 0.0
    return min(node.cores, max(0.0, node.others - max(0.0, node.cpus - node.cores)))


def _fitting(node: NodeCores, setup: Setup, taken: float, input_share: float) -> _Fit:
    """Find what fits the cores that others did not take."""
    mine = max(1.0, node.cores - taken) / len(node.ranks)
    busy_workers = math.ceil(node.workers_own / len(node.ranks) - _ROUNDING)
    threads = max(1, math.floor(mine - max(0, busy_workers) + _ROUNDING))
    workers = max(1, math.floor(mine + _ROUNDING) - threads)
    set_threads, set_workers = setup.omp_threads, setup.loader.workers or 0
    too_many = set_workers > workers
    needs_workers = too_many and input_share >= limit("input_share_warning")
    return _Fit(
        threads if set_threads is not None and threads < set_threads else None,
        workers if too_many and not needs_workers else None,
        needs_workers,
    )


def _why(cause: Cause, node: NodeCores, setup: Setup) -> str:
    if cause == "quota":
        return f"The CPU quota of its container ({_cores(node.cores)}) was spent and held it back."
    if cause == "own":
        ranks = (
            f"{len(node.ranks)} ranks on the node use" if len(node.ranks) > 1 else "The run uses"
        )
        workers = f" and {count(node.workers, 'worker')}" if node.workers else ""
        return f"{ranks} {count(node.threads or 0, 'thread')}{workers} on {_cores(node.cores)}."
    if cause == "others":
        all_cores = _cores(float(node.cpus or node.cores))
        return f"Other processes on the node used {node.others or 0.0:.3g} of its {all_cores}."
    known = node.own is not None and node.node_used is not None and setup.omp_threads is not None
    what = (
        "neither the run's threads nor other processes explain it"
        if known
        else "not enough was read to tell"
    )
    return f"Who took the core cannot be told: {what}."


def _action(causes: tuple[Cause, ...], node: NodeCores, setup: Setup, fit: _Fit) -> str:
    each = " for each rank" if len(node.ranks) > 1 else ""
    settings = []
    if fit.threads is not None:
        settings.append(f"OMP_NUM_THREADS={fit.threads} (now {setup.omp_threads}){each}")
    if fit.workers is not None:
        settings.append(f"num_workers={fit.workers} (now {setup.loader.workers}){each}")
    fewer = f"set {' and '.join(settings)}" if settings else ""
    if causes[0] == "quota":
        until = f"; until then {fewer}" if fewer else ""
        return f"Raise the CPU limit of the container{until}."
    if "own" in causes:
        if fewer:
            first = f"{fewer[:1].upper()}{fewer[1:]}"
        elif fit.needs_workers:
            first = (
                "Give the run more cores, or make samples cheaper to prepare: training waits for them, so "
                "fewer workers would only make it wait longer"
            )
        else:
            first = "Run fewer ranks on the node, or give it more cores"
        return f"{first}{'; other processes use cores as well' if 'others' in causes else ''}."
    if "others" in causes:
        until = f"; until then {fewer}, which loses less while cores are taken" if fewer else ""
        return f"End the other processes, or give the run cores of its own{until}."
    return "Look with `top -H` at what runs while training does, and give the run cores of its own."


def _cores(value: float) -> str:
    """Write "1 core", "1.56 cores" or "32 cores"; a quota may be a fraction."""
    return f"{value:.3g} core{'' if value == 1.0 else 's'}"
