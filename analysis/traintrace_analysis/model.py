"""The shapes that an analysis is made of; plain records, no calculation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from traintrace.facts import RunStatus
from traintrace_analysis.convergence.model import Convergence
from traintrace_analysis.efficiency.model import EfficiencyBudget
from traintrace_analysis.findings import FamilyState, Finding, Verdict
from traintrace_analysis.machine import Memory, ProcessSummary, SystemSummary
from traintrace_analysis.rank_comparison import RankComparison
from traintrace_analysis.stages.model import StageAnalysis
from traintrace_analysis.step_window import MetricClock, StepWindow
from traintrace_analysis.traces.lens import Communication


@dataclass(frozen=True, slots=True)
class Tail:
    """Steps that stick out: at least five spreads above the level around them, and at least twice as long.

    Attributes:
        count: How many there are.
        excess_share: What they take above that level, over the sum of all steps.
        spacing_steps: Median distance from one to the next; None under three.
        regular_share: Share of the distances within a tenth of `spacing_steps`; None as for that.
    """

    count: int
    excess_share: float
    spacing_steps: float | None
    regular_share: float | None


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity per step, after the warm-up; every number is None if it was not measured.

    The distribution (`mean_ms` to `max_ms`) is that of the representative rank: a real rank, so the
    numbers belong together.

    Attributes:
        share: Median over ranks of the rank's mean over its mean step time.
        by_rank: Mean in ms by rank, for every expected rank.
        worst_ms, worst_rank: The largest mean and its rank.
        skew: (worst - median over ranks) / median over ranks; None for a single rank.
        host_mean_ms, device_mean_ms: The representative rank's mean on each clock.
        n: Steps measured on the representative rank.
        ranks_measured: Ranks that measured it on at least 95 % of the steps.
        start_ms, end_ms: Where a robust straight line through the steady steps begins and ends. It
            describes and does not judge: whether the difference is more than noise, DRIFT says.
            None under ten steps.
        tail: Steps that stick out; None if a value is not positive.
    """

    name: str
    clock: MetricClock
    by_rank: Mapping[int, float | None]
    mean_ms: float | None = None
    std_ms: float | None = None
    median_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    share: float | None = None
    worst_ms: float | None = None
    worst_rank: int | None = None
    representative_rank: int | None = None
    skew: float | None = None
    host_mean_ms: float | None = None
    device_mean_ms: float | None = None
    n: int = 0
    ranks_measured: int = 0
    start_ms: float | None = None
    end_ms: float | None = None
    tail: Tail | None = None

    @property
    def drift_ms(self) -> float | None:
        """How much more the end of the steady steps takes than their beginning; None as for these."""
        return None if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class MetricStatistics:
    """What another run needs to be compared with this one, for one metric of one rank.

    Attributes:
        log_mean: Mean of the winsorised ln(ms); None if a value is not positive.
        log_sd: Standard deviation of the same; None as for `log_mean`.
        tau: Integrated autocorrelation time in steps, at least 1.
        n_effective: Steps divided by tau.
        block_steps: Length of a block. block_means_ms: arithmetic means of consecutive blocks.
    """

    rank: int
    log_mean: float | None
    log_sd: float | None
    tau: float
    n_effective: float
    block_steps: int
    block_means_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WallLedger:
    """Where every nanosecond of one rank's traced span went.

    Attributes:
        total_ns: The sum of `accounts_ns`, exactly.
        accounts_ns: By leaf account; an account that did not occur has no key.
        groups_ns: By group, summed over the leaves that occurred.
        by_rank: `accounts_ns` of every rank that recorded, this one included.
    """

    rank: int
    attempt: int
    total_ns: int
    accounts_ns: Mapping[str, int]
    groups_ns: Mapping[str, int]
    by_rank: Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Rate:
    """A quantity per second; None where the quantity is unknown.

    Attributes:
        step: Over the sum of the step times.
        round_trip: Over all time from the first step's open to the end of training: what follows
            the last step (evaluation, checkpoint) included, shutdown and dropped steps left out.
    """

    step: float | None
    round_trip: float | None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Speed after the warm-up; samples and tokens are summed over the ranks."""

    steps_per_s: Rate
    samples_per_s: Rate
    tokens_per_s: Rate


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was done in the analysed attempt; None is unknown, and so is all without a record.

    `steps`, `steps_aborted`, `micro_batches`, `updates_skipped` and `epochs` are the most that any
    rank counted; samples and tokens are summed over the ranks, and so are dropped rows.

    Attributes:
        steps_unpublished: Completed steps that never reached a rank's file. A rank that ended in
            order has none; of one that did not, nobody knows how many.
    """

    steps: int | None
    steps_aborted: int | None
    steps_unpublished: int | None
    updates_skipped: int | None
    micro_batches: int | None
    samples: int | None
    tokens: int | None
    padded_tokens: int | None
    epochs: int | None
    dropped_rows: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of the job.

    Attributes:
        wall_s: Seconds from its first rank's start until its last rank was alive last; 0.0 if none got so far.
        downtime_before_s: Seconds since the attempt before ended; None for the first one, and where that is
            not known.
    """

    n: int
    status: RunStatus
    wall_s: float
    downtime_before_s: float | None
    steps: int


@dataclass(frozen=True, slots=True)
class Series:
    """At most 200 points over the window, each the mean of its steps; None where nothing is known."""

    step: tuple[int, ...] = ()
    step_time_ms: tuple[float | None, ...] = ()
    input_wait_ms: tuple[float | None, ...] = ()
    loss: tuple[float | None, ...] = ()
    memory_bytes: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far one signal was measured.

    Attributes:
        state: "measured", "partial" (not on every rank) or "not_measured".
        steps_measured: Steady steps with a value on the measuring rank that has fewest.
        reason: Why it is not fully measured; None if it is.
    """

    state: str
    ranks_measured: int
    steps_measured: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that a report, a tracker or a comparison needs to know about a run.

    Attributes:
        representative_rank: The rank that single-rank numbers come from; None without any rank.
        warmup_ms: Time of the warm-up steps on the representative rank; 0.0 without warm-up, None
            without steps.
        metrics, statistics: By metric; statistics has measured metrics only.
        ranks: None if fewer than two ranks can be compared.
        findings: Most severe first, then by cost.
        stages: The pipeline of stages and queues; None if none was marked.
        communication: What ranks wait for and what traces say; None for one rank without a trace.
        convergence: How training went, by what was logged; None if nothing is known of it.
        efficiency: The wall time against the device's peak; None if no time was recorded.
    """

    window: StepWindow
    representative_rank: int | None
    warmup_ms: float | None
    metrics: Mapping[str, Metric]
    statistics: Mapping[str, MetricStatistics]
    wall: WallLedger | None
    throughput: Throughput
    counts: Counts
    attempts: tuple[Attempt, ...]
    series: Series
    memory: Memory | None
    system: SystemSummary | None
    process: ProcessSummary | None
    ranks: RankComparison | None
    findings: tuple[Finding, ...]
    families: Mapping[str, FamilyState]
    verdict: Verdict
    coverage: Mapping[str, Coverage]
    warnings: tuple[str, ...] = field(default=())
    stages: StageAnalysis | None = None
    communication: Communication | None = None
    convergence: Convergence | None = None
    efficiency: EfficiencyBudget | None = None
