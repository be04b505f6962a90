"""Runs to compare: made by hand, analysed, summarised, and read back from the summary."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.labs.runs import make_rank, make_run
from traintrace.facts import RunFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.comparison.model import ComparedRun
from traintrace_analysis.comparison.reading import compared_run
from traintrace_reporting.summary import summarise

STEP: Mapping[str, float] = {
    "input_wait": 2.0, "batch_prep": 0.2, "forward": 6.0, "backward": 10.0, "optimizer": 1.5, "other": 0.3,
}  # fmt: skip


def facts(
    ms: Mapping[str, float] = STEP,
    *,
    steps: int = 200,
    seed: int = 0,
    cv: float = 0.03,
    level: float = 0.0,
    trend: float = 0.0,
    warmup: int = 0,
    between: Mapping[int, Mapping[str, float]] | None = None,
    samples: int = 32,
    setup: Setup | None = None,
    device: bool = False,
    name: str = "run",
) -> RunFacts:
    """Make a run whose accounts each vary from step to step.

    `level` is added to the logarithm of all of it, `trend` grows in from the first step to the last;
    the first `warmup` steps take four times as long.
    """
    rng = np.random.default_rng(seed)
    line = level + trend * np.linspace(0.0, 1.0, steps)
    line[:warmup] += math.log(4.0)
    ways = {
        account: (mean * np.exp(line + cv * rng.standard_normal(steps))).tolist()
        for account, mean in ms.items()
    }
    rank = make_rank(
        steps, ms=ways, jitter=0.0, before_ms=between, samples=samples, setup=setup,
        device_ms={k: ms[k] for k in ("forward", "backward", "optimizer")} if device else None,
    )  # fmt: skip
    run = make_run(rank)
    return replace(run, name=name, id=f"{name}-{seed}", started_at=run.started_at + seed)


def summary(run: RunFacts) -> dict[str, Any]:
    """Give the content of its `final_summary.json`, as it comes back from a file."""
    written = summarise(run, analyse(run), generated_at=run.started_at)
    read: dict[str, Any] = json.loads(json.dumps(written, allow_nan=False))
    return read


def made(ms: Mapping[str, float] = STEP, **how: Any) -> ComparedRun:
    """Make a run and read it as a comparison does; arguments as for `facts`."""
    return compared_run(summary(facts(ms, **how)))


def side(label: str, seeds: range, *, run_sd: float = 0.01, slower: float = 0.0, **how: Any) -> list[ComparedRun]:  # fmt: skip
    """Make several runs that differ by `run_sd`; `slower` is a share of all of the step."""
    levels = np.random.default_rng([seeds.start, 77]).normal(0.0, run_sd, len(seeds))
    return [
        made(seed=seed, level=float(level) + math.log1p(slower), name=f"{label}{seed}", **how)
        for seed, level in zip(seeds, levels, strict=True)
    ]


def scaled(run: ComparedRun, factor: float) -> ComparedRun:
    """Give the run as if everything had taken `factor` times as long."""
    metrics = {
        name: replace(
            one,
            mean_ms=None if one.mean_ms is None else one.mean_ms * factor,
            log_mean=None if one.log_mean is None else one.log_mean + math.log(factor),
            block_means=tuple(mean * factor for mean in one.block_means),
        )
        for name, one in run.metrics.items()
    }
    accounts = {name: value * factor for name, value in run.accounts_s_per_step.items()}
    return replace(run, metrics=metrics, accounts_s_per_step=accounts)
