"""Ranks in lockstep, simulated: each does its own work, then all wait for the slowest.

Gives the window that real ranks would have left, without the detour of a run folder, so that
thousands of jobs can be tried; `run_of` goes the whole way for a single one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tests.labs.runs import make_rank, make_run
from traintrace.facts import RunFacts, Setup
from traintrace_analysis.step_window import StepWindow

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator
# Where a rank waits for the others: after its own backward, as marked; inside its backward, not
# marked; inside its forward, as sharded parameters do; in a marked collective.
Wait = Literal["gradient_sync", "backward", "forward", "batch_prep", "communication"]
STEP: Mapping[str, float] = {
    "input_wait": 1.0, "forward": 14.0, "backward": 28.0, "optimizer": 5.0, "other": 2.0,
}  # fmt: skip
_BEFORE_FORWARD = ("gap", "input_wait", "h2d")


def noise(
    rng: Rng, shape: tuple[int, int], *, cv: float = 0.05, ar: float = 0.0, spikes: float = 0.0
) -> Floats:
    """Give factors about 1 per rank and step: lognormal, AR(1) over steps, with rare slow steps."""
    drawn = rng.standard_normal(shape)
    if ar:
        innovation = np.sqrt(1.0 - ar * ar)
        for step in range(1, shape[1]):
            drawn[:, step] = ar * drawn[:, step - 1] + innovation * drawn[:, step]
    factors: Floats = np.exp(np.sqrt(np.log1p(cv * cv)) * drawn)
    if spikes:
        factors *= np.where(rng.random(shape) < spikes, rng.uniform(2.0, 6.0, shape), 1.0)
    return factors


def own_work(ranks: int, steps: int, factors: Floats | float = 1.0) -> dict[str, Floats]:
    """Give each account's own work in ms, ranks by steps."""
    return {name: np.full((ranks, steps), ms) * factors for name, ms in STEP.items()}


def synchronise(
    own: Mapping[str, Floats], *, wait: Wait = "gradient_sync", link_ms: float = 1.0
) -> dict[str, Floats]:
    """Let the ranks wait for each other in every step; `gap` precedes its step.

    The optimizer and the callbacks follow the synchronisation, all else precedes it. Where ranks
    wait before the forward or in it, they wait for what precedes it, and again after the backward.
    """
    accounts = {name: part.copy() for name, part in own.items()}
    ranks, steps = own["forward"].shape
    accounts["gradient_sync"] = np.zeros((ranks, steps))
    if wait != "gradient_sync":
        accounts.setdefault(wait, np.zeros((ranks, steps)))
    after = sum(
        (own[name] for name in ("optimizer", "callbacks") if name in own), np.zeros((ranks, steps))
    )
    early = [name for name in own if name in _BEFORE_FORWARD]
    late = [name for name in own if name not in (*_BEFORE_FORWARD, "optimizer", "callbacks")]
    now = np.zeros(ranks)
    for step in range(steps):
        now = now + sum(own[name][:, step] for name in early)
        if wait in ("forward", "batch_prep", "communication"):
            accounts[wait][:, step] += now.max() - now
            now = np.full(ranks, now.max())
        now = now + sum(own[name][:, step] for name in late)
        met = now.max() + link_ms
        accounts["backward" if wait in ("backward", "forward") else "gradient_sync"][:, step] += (
            met - now
        )
        now = met + after[:, step]
    if wait in ("backward", "forward"):
        del accounts["gradient_sync"]
    return accounts


def window_of(
    accounts: Mapping[str, Floats],
    *,
    samples: Floats | None = None,
    tokens: Floats | None = None,
    nodes: tuple[int, ...] | None = None,
    strategy: str = "ddp",
) -> StepWindow:
    """Make the window that ranks with these accounts, in ms, would have left."""
    ns = {name: np.rint(part * 1e6) for name, part in accounts.items()}
    gap = ns.pop("gap", None)
    ranks, steps = ns["forward"].shape
    inside = sum(ns.values(), np.zeros((ranks, steps)))
    row = inside if gap is None else inside + gap
    close = np.cumsum(row, axis=1).astype(np.int64)
    unknown = np.full((ranks, steps), np.nan)
    template = make_rank(1, setup=Setup(strategy=strategy, device_kind="cpu"))
    totals = replace(template.totals, steps=steps)
    where = nodes or (0,) * ranks
    host: dict[str, Floats] = {**ns, "step_time": inside}
    return StepWindow(
        attempt=0, expected_ranks=tuple(range(ranks)), ranks=tuple(range(ranks)),
        strategy=strategy,
        facts=tuple(
            replace(template, rank=rank, node=where[rank], totals=totals, columns={})
            for rank in range(ranks)
        ),
        steps=np.arange(1, steps + 1), warmup_steps=0, clock="host", accelerator=False,
        start_ns=close - row.astype(np.int64), open_ns=close - inside.astype(np.int64),
        close_ns=close, flags=np.zeros((ranks, steps), dtype=np.int64),
        samples=unknown if samples is None else samples, tokens=unknown if tokens is None else tokens,
        host=host, device={}, between={} if gap is None else {"gap": gap}, inside={}, memory={},
        gc_ns=None, reasons={},
    )  # fmt: skip


def run_of(
    accounts: Mapping[str, Floats],
    *,
    nodes: tuple[int, ...] | None = None,
    strategy: str = "ddp",
    without: Mapping[int, tuple[str, ...]] | None = None,
    samples: int | None = 32,
) -> RunFacts:
    """Make the run of ranks with these accounts, in ms; `without` names accounts that a rank lacks.

    What a rank lacks lies in `other` there, as it does where a phase was not seen.
    """
    ranks, steps = accounts["forward"].shape
    made = []
    for rank in range(ranks):
        lacks = (without or {}).get(rank, ())
        ms = {name: part[rank].copy() for name, part in accounts.items() if name != "gap"}
        for name in lacks:
            ms["other"] = ms["other"] + ms.pop(name)
        gaps = accounts.get("gap")
        made.append(
            make_rank(
                steps,
                rank=rank,
                ms={name: part.tolist() for name, part in ms.items()},
                before_ms={}
                if gaps is None
                else {step + 1: {"gap": float(gaps[rank, step])} for step in range(steps)},
                jitter=0.0,
                node=0 if nodes is None else nodes[rank],
                setup=Setup(strategy=strategy, device_kind="cpu", cpu_count=8),
                samples=samples,
            )
        )
    return make_run(*made)
