"""Limits of the family `memory`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "device_memory_share_info": Threshold(
        0.90,
        "share",
        "of the device; PyTorch's profiler plugin for TensorBoard advises from 90 % on",
    ),
    "device_memory_share_warning": Threshold(
        0.95,
        "share",
        "of the device; the CUDA context and libraries take 0.5 to 1 GB beside the allocator, so "
        "on 16 to 24 GB nothing is left above it",
    ),
    "device_memory_share_critical": Threshold(
        0.98, "share", "allocated, of the device: one tensor more than usual ends the run"
    ),
    "device_memory_share_full": Threshold(
        0.98,
        "share",
        "taken of the device by anybody; on 80 GB the rest is 1.6 GB, about what a second context, NCCL's "
        "buffers and a library's workspace take, which cannot use the allocator's cache",
    ),
    "host_memory_share_warning": Threshold(
        0.90, "share", "of RAM; the kernel begins to drop the page cache that loaders read through"
    ),
    "host_memory_share_critical": Threshold(
        0.97, "share", "of RAM; the kernel kills processes when the rest is gone"
    ),
    "imbalance_share": Threshold(
        0.10,
        "ratio",
        "of the other ranks' median; ranks of equal work allocate equally, to a few percent of batch padding",
    ),
    "imbalance_share_rss": Threshold(
        0.20,
        "ratio",
        "the same for resident memory, where rank 0 also logs and saves and the allocator of libc "
        "keeps what it likes",
    ),
    "imbalance_floor": Threshold(
        100e6, "bytes", "less than 100 MB decides nothing on any machine that trains"
    ),
    "creep_readings_minimum": Threshold(
        24, "readings", "three for each of the eight parts, so that a median is one"
    ),
    "creep_growth_floor": Threshold(
        20e6, "bytes", "a Python process with torch drifts by a few MB without a leak"
    ),
    "creep_growth_share": Threshold(
        0.02, "share", "of the level; less is what caches and padding do"
    ),
    "creep_rising_pairs": Threshold(
        0.90,
        "share",
        "of all pairs of eighths that must rise; simulated, 40 to 5,000 steps, with the limits of pace: flat memory "
        "with noise up to 20 % and AR(.9) grows falsely in 0 to 0.8 % of runs, three jumps at random in 2 to 6 %; 60 MB "
        "of true growth is found in all",
    ),
    "creep_pace_minimum": Threshold(
        0.2, "ratio", "of the mean slope, in each quarter and in the last eighth: a jump has none"
    ),
    "creep_pace_at_end": Threshold(
        0.5, "ratio", "of the mean slope, in the last quarter: growth that saturates has 0.4"
    ),
    "creep_clearness": Threshold(
        8.0,
        "ratio",
        "growth over the scatter of the eighths around its line; simulated: noise of 2 % on 512 ranks, 51 steps, "
        "reaches 4.7, three jumps 10; growth of 60 MB with 3 MB of noise has 16 or more",
    ),
    "fragmentation_ratio": Threshold(
        1.30,
        "ratio",
        "reserved over allocated; the allocator's rounding to 2 and 20 MB blocks stays under 1.2 for models "
        "that fill a device",
    ),
    "overhang_ratio": Threshold(
        1.50, "ratio", "reserved over allocated; a third of what the process holds is not in use"
    ),
    "overhang_floor": Threshold(
        1e9, "bytes", "less than a gigabyte makes room for nobody else on a device that trains"
    ),
    "overhang_share_warning": Threshold(
        0.25, "share", "of the device; from a quarter on it decides what else fits"
    ),
    "retries_per_step_warning": Threshold(
        0.01, "ratio", "one retry in a hundred steps; each frees the cache and waits for the device"
    ),
    "retries_minimum": Threshold(3, "count", "one or two may belong to a single larger batch"),
}
