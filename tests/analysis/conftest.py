"""Runs made by hand, as fixtures."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.labs.runs import CPU_STEP, START_NS, Value, make_rank, make_run
from traintrace.facts import EPOCH_FIRST, LoaderSetup, RankFacts, RunFacts, Scalar, Setup


@pytest.fixture
def new_rank() -> Callable[..., RankFacts]:
    return make_rank


@pytest.fixture
def new_run() -> Callable[..., RunFacts]:
    return make_run


@pytest.fixture
def cpu_step() -> dict[str, Value]:
    """Milliseconds per account of an ordinary step on a CPU."""
    return dict(CPU_STEP)


@pytest.fixture
def gpu_setup() -> Setup:
    loader = LoaderSetup(workers=4, prefetch_factor=2, pin_memory=False, persistent=False)
    return Setup(device_kind="cuda", device_name="H100", cpu_count=16, loader=loader)


@pytest.fixture
def without_steps() -> Callable[[RankFacts], RankFacts]:
    """Take all rows and sums out of a rank, as if it had died before its first step."""

    def empty(rank: RankFacts) -> RankFacts:
        totals = replace(
            rank.totals, account_ns={"startup": 5}, inside_ns={}, calls={}, wall_ns=5, steps=0,
            micro_batches=0, samples=None, epochs=None, transitions=0, dropped_rows=0,
        )  # fmt: skip
        columns: dict[str, Sequence[int | None]] = {name: [] for name in rank.columns}
        return replace(rank, totals=totals, columns=columns, spans=(), scalars=())

    return empty


@pytest.fixture
def scenarios(
    gpu_setup: Setup, without_steps: Callable[[RankFacts], RankFacts]
) -> dict[str, RunFacts]:
    """Runs of every kind that a reader will meet, by what is odd in them."""
    epoch_starts = range(1, 101, 10)
    nan, inf = float("nan"), float("inf")
    in_step = {**CPU_STEP, "gradient_sync": 0.2}  # what ranks in lockstep record
    return {
        "no_ranks": make_run(),
        "no_steps": make_run(without_steps(make_rank())),
        "one_step": make_run(make_rank(1)),
        "nine_steps": make_run(make_rank(9)),
        "plain_cpu": make_run(make_rank()),
        "slow_input": make_run(
            make_rank(ms={"input_wait": 10.0, "forward": 0.8, "backward": 0.8, "optimizer": 0.3, "other": 0.1})
        ),
        "fast_tiny_model": make_run(
            make_rank(600, ms={"input_wait": 0.6, "forward": 0.3, "backward": 0.5, "optimizer": 0.2, "other": 0.05})
        ),
        "forward_missing_everywhere": make_run(
            make_rank(
                ms={"input_wait": 0.5, "backward": 6.0, "optimizer": 1.0, "other": 5.0},
                unmeasured={"forward": "model runs inside a compiled function"},
            )
        ),
        "forward_missing_on_one_rank": make_run(
            make_rank(rank=0, ms=in_step),
            make_rank(rank=1, ms={**in_step, "forward": None, "other": 5.0}),
        ),
        "rank_without_rows": make_run(
            make_rank(rank=0, ms=in_step), make_rank(rank=1, ms=in_step), without_steps(make_rank(rank=2)), world_size=4
        ),
        "rank_missing_steps": make_run(
            make_rank(rank=0, ms=in_step), make_rank(rank=1, ms=in_step, missing=(40, 41, 42, 43))
        ),
        "evaluation": make_run(
            make_rank(before_ms={step: {"evaluation": 400.0} for step in (25, 50, 75, 100)})
        ),
        "checkpoint_inside_steps": make_run(
            make_rank(inside_ms={step: {"checkpoint": 300.0} for step in (50, 100)})
        ),
        "epoch_starts": make_run(
            make_rank(
                setup=replace(gpu_setup, device_kind="cpu"),
                flags={step: EPOCH_FIRST for step in epoch_starts},
                before_ms={step: {"epoch_boundary": 50.0} for step in epoch_starts},
                ms={**CPU_STEP, "input_wait": [30.0 if k % 10 == 0 else 0.5 for k in range(100)]},
                epochs=10,
            )
        ),
        "gpu_device_clock": make_run(
            make_rank(
                setup=gpu_setup,
                ms={"input_wait": 4.0, "h2d": 0.2, "forward": 1.0, "backward": 1.0, "optimizer": 0.5, "other": 5.0},
                device_ms={"h2d": 0.1, "forward": 3.0, "backward": 6.5, "optimizer": 1.0},
                memory={"peak_allocated_bytes": 2**30, "peak_reserved_bytes": 2**31, "rss_bytes": 2**29},
            )
        ),
        "gpu_host_clock": make_run(
            make_rank(setup=gpu_setup, ms={**CPU_STEP, "h2d": 0.2, "other": 8.0})
        ),
        "h2d_bound_gpu": make_run(
            make_rank(
                setup=gpu_setup,
                ms={"input_wait": 0.2, "h2d": 5.0, "forward": 3.0, "backward": 6.0, "optimizer": 1.0, "other": 0.2},
                device_ms={"h2d": 5.0, "forward": 3.0, "backward": 6.0, "optimizer": 1.0},
            )
        ),
        "odd_scalars": make_run(
            make_rank(
                scalars=[Scalar(k + 1, "loss", v) for k, v in enumerate([2.0, nan, inf, -inf, 1.0])]
            )
        ),
        "restarted": make_run(
            make_rank(30, attempt=0), make_rank(40, attempt=1, start_ns=START_NS + 60_000_000_000)
        ),
    }  # fmt: skip
