"""Healthy runs: everything that happens in training, each thing under the limit of its finding."""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.corpus.clean_extras import add_work_between, describe_machine, describe_memory
from benchmarks.corpus.draft import Draft, Sync
from benchmarks.corpus.noise import Noise, draw_noise
from traintrace.facts import COMPILED, COMPILED_KNOWN, LoaderSetup, Setup
from traintrace_analysis.step_window import Floats

_MOST_ROWS = 40_000  # ranks times steps


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a draft must have for a fault to fit in; None leaves it to chance.

    Attributes:
        clock: "host" is a run on the CPU, "device" a run with device times, "blind" a run on an
            accelerator with host times only.
        ranks: At least so many. steps: at least so many. most_steps: at most so many.
        step_ms: Range of the usual step time. wall_s: the run lasts at least so long.
        rank_cv: Largest spread of a rank around what all ranks do in the same step.
        readings: True if the samplers ran.
        cv: Range of the noise that all ranks share. memory: largest lag-1 autocorrelation, of any noise.
    """

    clock: str | None = None
    ranks: tuple[int, ...] | None = None
    steps: int = 40
    most_steps: int = 5_000
    step_ms: tuple[float, float] | None = None
    wall_s: float = 0.0
    rank_cv: float = 0.06
    cv: tuple[float, float] = (0.01, 0.20)
    memory: float = 0.9
    warmup: bool | None = None
    readings: bool = False


def draft_clean(chance: np.random.Generator, wanted: Wanted | None = None) -> Draft:
    """Draft a run with nothing wrong, of the kind that is wanted."""
    wanted = wanted or Wanted()
    clock = wanted.clock or str(chance.choice(["host", "device", "blind"], p=[0.62, 0.30, 0.08]))
    ranks = int(chance.choice(wanted.ranks)) if wanted.ranks else _draw_ranks(chance)
    low_ms, high_ms = wanted.step_ms or _draw_scale(chance)
    step_ms = _log_uniform(chance, low_ms, high_ms)
    least = max(wanted.steps, math.ceil(wanted.wall_s * 1e3 / step_ms))
    most = max(least, min(wanted.most_steps, _MOST_ROWS // ranks))
    steps = round(_log_uniform(chance, least, most))
    draft = Draft(
        chance=chance,
        ranks=ranks,
        steps=steps,
        setup=_setup(chance, clock),
        work_ms={},
        flags=np.zeros((ranks, steps), dtype=np.int64),
        transfer_ms=np.zeros(steps),
        sync=_sync(chance, ranks, clock),
        nodes=_nodes(ranks),
    )
    _fill_steps(draft, clock, step_ms, wanted)
    if wanted.warmup or (wanted.warmup is None and chance.random() < 0.5):
        _add_warmup(draft)
    add_work_between(draft)
    describe_memory(draft, clock)
    describe_machine(draft, clock, always=wanted.readings)
    return draft


def _log_uniform(chance: np.random.Generator, low: float, high: float) -> float:
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def _draw_ranks(chance: np.random.Generator) -> int:
    if chance.random() < 0.01:
        return 512
    return int(chance.choice([1, 2, 4, 8, 16, 64], p=[0.5, 0.12, 0.14, 0.14, 0.06, 0.04]))


def _draw_scale(chance: np.random.Generator) -> tuple[float, float]:
    """Draw the range of a step: usual, tiny, or as long as steps get."""
    scales = ((8.0, 300.0), (0.5, 2.0), (1500.0, 2500.0))
    return scales[int(chance.choice(3, p=[0.75, 0.15, 0.10]))]


def _setup(chance: np.random.Generator, clock: str) -> Setup:
    workers = int(chance.choice([0, 2, 4, 8]))
    return Setup(
        strategy="ddp",
        device_kind="cpu" if clock == "host" else "cuda",
        device_count=0 if clock == "host" else 8,
        accumulation=int(chance.choice([1, 1, 1, 2, 4])),
        batch_size=32,
        cpu_count=16,
        omp_threads=int(chance.choice([1, 4])),
        loader=LoaderSetup(workers=workers, prefetch_factor=2 if workers else None),
    )


def _sync(chance: np.random.Generator, ranks: int, clock: str) -> Sync:
    if ranks == 1:
        return "none"
    return "in_backward" if clock != "host" or chance.random() < 0.15 else "marked"


def _nodes(ranks: int) -> tuple[int, ...]:
    return tuple(rank // 8 for rank in range(ranks))


def _fill_steps(draft: Draft, clock: str, step_ms: float, wanted: Wanted) -> None:
    """Draw each account's share of the step and its course over the steps."""
    chance = draft.chance
    shares = {
        "input_wait": chance.uniform(0.002, 0.055),
        "forward": chance.uniform(0.26, 0.36),
        "optimizer": chance.uniform(0.02, 0.09),
    }
    if clock != "host":
        shares["h2d"] = chance.uniform(0.003, 0.05)
    extra = {"other": chance.uniform(0.005, 0.045)}
    if chance.random() < 0.3:
        extra["callbacks"] = chance.uniform(0.001, 0.015)
    if chance.random() < 0.3:
        extra["clip"] = chance.uniform(0.001, 0.012)
    shares |= extra
    shares["backward"] = 1.0 - sum(shares.values())
    noise = draw_noise(chance, cv=wanted.cv, most_memory=wanted.memory)
    own = _own_factors(draft, wanted)
    together = noise.factors(chance, draft.steps)
    own_of_all = step_ms * together * own
    common = {name: share * own_of_all for name, share in shares.items()}
    common["input_wait"] *= _gamma_factors(chance, (draft.steps,), 0.6)
    for name, matrix in common.items():
        matrix *= _gamma_factors(chance, draft.shape, 0.2 if name == "input_wait" else 0.02)
    if clock == "host":
        draft.work_ms = common
    else:
        _split_host_and_device(draft, common, blind=clock == "blind")
    if draft.sync != "none":
        draft.transfer_ms = (
            step_ms * chance.uniform(0.005, 0.04) * _gamma_factors(chance, (draft.steps,), 0.1)
        )
    _count_work(draft)


def _most_own(ranks: int) -> float:
    """Give the spread at which waiting for the slowest of `ranks` by chance takes 7 % of the step."""
    return 0.07 / math.sqrt(2.0 * math.log(max(2, ranks)))


def _own_factors(draft: Draft, wanted: Wanted) -> Floats:
    """Draw what each rank adds of its own: small fixed differences, and noise with its own memory."""
    if draft.ranks == 1:
        return np.ones(draft.shape)
    chance = draft.chance
    cv = _log_uniform(chance, 0.003, min(wanted.rank_cv, _most_own(draft.ranks)))
    memory = min(wanted.memory, float(chance.choice([0.0, 0.0, 0.3, 0.5, 0.9])))
    # All wait for the slowest, so what counts is how many steps any rank's own spikes make late: 4 % at
    # most, which loses 6 % of the time, or 1 % of each rank's.
    together = float(chance.uniform(0.0, 0.04)) if chance.random() < 0.3 else 0.0
    spikes = min(0.01, together / draft.ranks)
    noise = Noise("log_normal", cv, memory, spikes, float(chance.uniform(0.5, 1.5)))
    drawn = np.stack([noise.factors(chance, draft.steps) for _ in range(draft.ranks)])
    fixed = 1.0 + min(0.1 * cv, 0.002) * chance.standard_normal((draft.ranks, 1))
    return fixed * drawn


def _gamma_factors(chance: np.random.Generator, shape: tuple[int, ...], cv: float) -> Floats:
    drawn: Floats = chance.gamma(1.0 / cv**2, cv**2, size=shape)
    return drawn


def _split_host_and_device(draft: Draft, work: dict[str, Floats], *, blind: bool) -> None:
    """Let the host run ahead of the device, and wait for it once a step where it asks for a value."""
    chance = draft.chance
    phases = ("h2d", "forward", "backward", "optimizer")
    ahead = {name: work[name] * chance.uniform(0.2, 0.7) for name in phases}
    remainder = np.sum([work[name] - ahead[name] for name in phases], axis=0)
    asks = str(chance.choice(["other", "other", "clip", "optimizer"])) if blind else "other"
    draft.work_ms = {**work, **ahead}
    draft.work_ms[asks] = draft.work_ms.get(asks, np.zeros(draft.shape)) + remainder
    if not blind:
        draft.device_ms = {name: work[name] for name in phases}


def _count_work(draft: Draft) -> None:
    """Count samples, and sometimes tokens that differ from batch to batch without a pattern."""
    chance = draft.chance
    draft.samples = np.full(draft.shape, 32, dtype=np.int64)
    draft.samples[:, -1] = int(chance.integers(1, 33))
    kind = str(chance.choice(["none", "padded", "bucketed"], p=[0.6, 0.25, 0.15]))
    if kind == "none":
        return
    if kind == "padded":  # compute is that of the padded batch, whatever it holds
        amounts = _gamma_factors(chance, draft.shape, 0.15)
    else:  # one length for all ranks, another in each step; compute follows
        amounts = np.tile(_gamma_factors(chance, (draft.steps,), 0.25), (draft.ranks, 1))
        for source in (draft.work_ms, draft.device_ms):
            for name in ("forward", "backward"):
                if name in source:
                    source[name] = source[name] * amounts
        if draft.setup.device_kind != "cpu":
            asks = max(("other", "clip", "optimizer"), key=lambda a: _sum_of(draft.work_ms, a))
            draft.work_ms[asks] = draft.work_ms[asks] * amounts
    draft.tokens = np.rint(32 * 128 * amounts).astype(np.int64)


def _sum_of(work: dict[str, Floats], account: str) -> float:
    return float(work[account].sum()) if account in work else 0.0


def _add_warmup(draft: Draft) -> None:
    """Slow the first steps, as caches, autotuning or a compilation do; 5 % of the run at most."""
    chance = draft.chance
    length = min(int(chance.integers(1, 9)), draft.steps // 8)
    total = chance.uniform(0.003, 0.05) * draft.steps  # in usual steps
    weights = 0.6 ** np.arange(length)
    excess = total * weights / weights.sum()
    draft.warmup_steps = length
    for source in (draft.work_ms, draft.device_ms):
        for name in ("forward", "backward"):
            if name in source:
                source[name][:, :length] *= 1.0 + excess
    if chance.random() < 0.4 and float(excess.min()) > 0.3:
        draft.flags[:, :length] |= COMPILED
        draft.flags |= COMPILED_KNOWN
