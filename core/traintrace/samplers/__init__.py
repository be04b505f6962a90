"""Readings of the machine, the process and its devices; the only package that asks psutil and NVML.

All of it runs on one thread per rank (`sampler.Sampler`), which is never the training thread. A reading
that fails is None. Nothing here initialises CUDA, and nothing runs in loader workers or forked children.
"""

from traintrace.samplers.allowance import cpu_count
from traintrace.samplers.program import ProgramReader
from traintrace.samplers.resident import ResidentMemory
from traintrace.samplers.sampler import Sampler, Watched, pause_s

__all__ = [
    "ProgramReader",
    "ResidentMemory",
    "Sampler",
    "Watched",
    "cpu_count",
    "pause_s",
]
