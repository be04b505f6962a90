"""What the machine and the processes did, in few numbers: memory, nodes, devices, processes.

None is "not measured". Means are over the steady steps, where readings fall into them, else over all
readings of the run; largest values and sums are of the whole run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Worst:
    """The most telling value over ranks, and the rank that it belongs to."""

    value: float
    rank: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Largest values over ranks and steps of the window; None was not measured.

    Attributes:
        rss_by_rank, peak_allocated_by_rank, peak_reserved_by_rank: Bytes by rank, None where a rank did
            not measure it; empty where no rank did.
        rss_max_rank, peak_allocated_max_rank, peak_reserved_max_rank: The rank of each largest value.
    """

    rss_max_bytes: int | None
    rss_last_bytes: int | None
    peak_allocated_max_bytes: int | None
    peak_reserved_max_bytes: int | None
    rss_by_rank: Mapping[int, int | None]
    peak_allocated_by_rank: Mapping[int, int | None]
    peak_reserved_by_rank: Mapping[int, int | None]
    rss_max_rank: int | None
    peak_allocated_max_rank: int | None
    peak_reserved_max_rank: int | None


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """One node, whoever used it, as one of its ranks read it.

    Attributes:
        rank: The rank that read it. readings: how often.
        cpu_cores_mean: Busy cores. cpu_cores_max: in the busiest interval.
        ram_used_max_bytes: Largest use. ram_used_max_share: the largest use over the total, 0 to 1.
    """

    node: int
    rank: int
    readings: int
    cpu_count: int | None
    cpu_cores_mean: float | None
    cpu_cores_max: float | None
    load_1min_mean: float | None
    ram_used_max_bytes: int | None
    ram_total_bytes: int | None
    ram_used_max_share: float | None
    disk_read_bytes_per_s: float | None
    disk_write_bytes_per_s: float | None
    network_received_bytes_per_s: float | None
    network_sent_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One accelerator of one rank.

    Attributes:
        utilisation_mean_share: Share of the time in which a kernel ran, 0 to 1.
        throttled_share: Share of the readings in which the clock was held back for a reason other than
            being idle or set so by a person. throttle_reason_shares: the share of each such reason.
    """

    rank: int
    device: int
    node: int
    readings: int
    utilisation_mean_share: float | None
    memory_used_max_bytes: int | None
    memory_total_bytes: int | None
    power_mean_w: float | None
    power_max_w: float | None
    power_limit_w: float | None
    temperature_mean_c: float | None
    temperature_max_c: float | None
    slowdown_temperature_c: float | None
    sm_clock_mean_mhz: float | None
    sm_clock_max_mhz: float | None
    throttled_share: float | None
    throttle_reason_shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """The nodes and their devices; a node's values stand once for the node.

    Attributes:
        ram_used_worst: Largest share of RAM in use, 0 to 1, by the rank that read its node.
        utilisation_worst: The lowest mean utilisation. temperature_worst_c: the highest temperature.
        memory_used_worst: The largest share of a device's memory in use, 0 to 1.
        throttled_worst: The largest share of readings with a clock that was held back.
    """

    nodes: Sequence[NodeSummary]
    devices: Sequence[DeviceSummary]
    ram_used_worst: Worst | None
    utilisation_worst: Worst | None
    memory_used_worst: Worst | None
    temperature_worst_c: Worst | None
    throttled_worst: Worst | None


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One rank's process and its descendants, loader workers above all.

    Attributes:
        tree_rss_max_bytes: Process and descendants at the same moment; shared pages count once for each.
        run_queue_share: Share of the time, 0 to 1, that the training thread was ready and had no core.
        run_queue_s, on_cpu_s: Seconds that it waited so, and ran, in the readings of the whole run.
        throttled_s: Seconds that the cgroup was held back by its CPU quota, summed over CPUs.
    """

    rank: int
    node: int
    readings: int
    cpu_cores_mean: float | None
    cpu_cores_max: float | None
    workers_cpu_cores_mean: float | None
    workers_max: int | None
    allowed_cores: float | None
    threads_max: int | None
    rss_max_bytes: int | None
    workers_rss_max_bytes: int | None
    tree_rss_max_bytes: int | None
    run_queue_share: float | None
    run_queue_s: float | None
    on_cpu_s: float | None
    involuntary_switches_per_s: float | None
    voluntary_switches_per_s: float | None
    throttled_s: float | None


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """The processes of all ranks that were read.

    Attributes:
        tree_rss_worst_bytes, cpu_cores_worst, run_queue_worst, throttled_worst_s: The largest
            `tree_rss_max_bytes`, `cpu_cores_mean`, `run_queue_share` and `throttled_s`.
    """

    by_rank: Mapping[int, RankProcess]
    tree_rss_worst_bytes: Worst | None
    cpu_cores_worst: Worst | None
    run_queue_worst: Worst | None
    throttled_worst_s: Worst | None
