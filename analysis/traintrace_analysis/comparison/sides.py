"""What a comparison needs to know of one run; plain records, no calculation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from traintrace_analysis.findings import Severity
from traintrace_analysis.step_window import MetricClock

Value: TypeAlias = str | int | float | bool | None

_LONGEST: Final = 60  # characters of a name in a sentence


@dataclass(frozen=True, slots=True)
class MetricSide:
    """One metric of one run.

    Attributes:
        available: Whether it was measured; if not, every number is None and `reason` says why.
        mean_ms: Arithmetic mean per step, after the warm-up.
        log_mean: Mean of the winsorised ln(ms); None where a step took nothing.
        log_sd: Standard deviation of the same; None as for `log_mean`.
        tau: Autocorrelation time in steps.
        n_effective: Steps divided by tau.
        block_means: Means in ms of consecutive blocks of `block_steps`.
    """

    name: str
    available: bool
    reason: str | None
    clock: MetricClock = "host"
    mean_ms: float | None = None
    log_mean: float | None = None
    log_sd: float | None = None
    tau: float | None = None
    n_effective: float | None = None
    block_steps: int | None = None
    block_means: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A finding of one run, as far as a comparison needs it; cost_s: seconds of the whole run."""

    kind: str
    family: str
    severity: Severity
    cost_s: float


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """What a comparison needs to know of one run.

    Attributes:
        status: As in the summary: "completed", "failed", ...
        clock: Clock of the step window: "host" or "device".
        steps: Steady steps, without the warm-up, that the metrics describe.
        warmup_steps: Steps left out before them.
        first_step: Id of the window's first step; None without steps.
        started_at: Unix seconds.
        work_per_step: Samples that one step trains on, over all ranks; None is unknown.
        tokens_per_step: As `work_per_step`.
        topology: What decides how ranks work together: world_size, nodes, strategy.
        hardware: Device kind, name and count, CPU count, and the processor if that is what trains.
        versions: Python, torch, CUDA, driver, framework, and the processor beside another device.
        configuration: Precision, batch size, accumulation, loader and what else a user sets.
        fingerprint: Hash of versions, setup and topology; "" if the summary has none.
        metrics: By metric, measured or not.
        findings: Most severe first.
        families: State of each family of findings: "clean", "finding", "not_measured", ...
        accounts_s_per_step: Exact seconds per step of every account of the wall ledger.
        throughput: "samples_per_s.step", "steps_per_s.round_trip", ...; None is unknown.
        memory, system, process: Figures by name, unit in the name; None is not measured.
        warnings: The run's own.
    """

    name: str
    id: str
    status: str
    clock: MetricClock
    steps: int
    warmup_steps: int
    first_step: int | None
    started_at: float
    duration_s: float | None
    world_size: int
    nodes: int
    work_per_step: float | None
    tokens_per_step: float | None
    topology: Mapping[str, Value]
    hardware: Mapping[str, Value]
    versions: Mapping[str, Value]
    configuration: Mapping[str, Value]
    fingerprint: str
    metrics: Mapping[str, MetricSide]
    findings: tuple[RunFinding, ...] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    accounts_s_per_step: Mapping[str, float] = field(default_factory=dict)
    throughput: Mapping[str, float | None] = field(default_factory=dict)
    memory: Mapping[str, float | None] = field(default_factory=dict)
    system: Mapping[str, float | None] = field(default_factory=dict)
    process: Mapping[str, float | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Give the name as sentences hold it: a name may be of any length."""
        return self.name if len(self.name) <= _LONGEST else f"{self.name[: _LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """How much runs of the same code differ on one machine, as calibrated.

    Attributes:
        run_sd_log: Standard deviation over runs of the mean ln(step time); 0.01 is 1 %. It holds what
            steps within a run add by chance.
        runs: How many runs it was measured on.
        fingerprint: Of those runs; a model of another workload or machine is not used.
        metric_sd_share: By metric, the standard deviation over runs of its mean ms per step, over the
            mean step time.
        trend_log: Change of ln(step time) from one run to the next, in the order they were started.
        trending: Whether that is more than chance; the machine was then not at rest.
    """

    run_sd_log: float
    runs: int
    fingerprint: str
    metric_sd_share: Mapping[str, float] = field(default_factory=dict)
    trend_log: float = 0.0
    trending: bool = False
