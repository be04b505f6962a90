"""What a name says: communication or compute, which collective, a synchronisation of the host.

Only kernels are judged by name: copies and fills have categories of their own in a trace, and named ranges that
a backend puts around a collective (`nccl:all_reduce`) repeat what its kernel says already.
"""

import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Marks

# The libraries' own prefixes. A bare word such as "broadcast" is no sign: elementwise kernels have it, too.
_KERNEL: Final = re.compile(
    r"^(?:void )?(?:(?:\w+|\(anonymous namespace\))::)*(?:nccl|rccl|msccl|oneccl|ccl_|hccl|xccl|deep_ep|nvshmem|rocshmem"
    r"|cross_device_reduce|one_shot_all_reduce|two_shot_all_reduce|multimem_)",
    re.IGNORECASE,
)
# Ranges that a backend on the host puts around its work, waiting for the other ranks included.
_HOST: Final = re.compile(r"^(?:gloo|mpi|ucc|ccl|oneccl|xccl):\w+", re.IGNORECASE)
_HOST_RECEIVES: Final = re.compile(r"^(?:gloo|mpi|ucc|ccl|oneccl|xccl):\w*recv", re.IGNORECASE)
_STARTS_COLLECTIVE: Final = re.compile(r"^(?:c10d|_c10d_functional)::|^record_param_comms$")
_SYNCHRONISES: Final = re.compile(
    r"Synchronize|^(?:cuda|hip)Memcpy(?:ToSymbol|FromSymbol|WithStream)?$|_sync$|QueueFinish|EventWait$"
)
_COLLECTIVES: Final = (
    ("all_reduce", re.compile(r"all_?reduce", re.IGNORECASE)),
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.IGNORECASE)),
    ("all_gather", re.compile(r"all_?gather", re.IGNORECASE)),
    ("all_to_all", re.compile(r"all_?to_?all", re.IGNORECASE)),
    ("broadcast", re.compile(r"broadcast|bcast", re.IGNORECASE)),
    ("send_recv", re.compile(r"send|recv", re.IGNORECASE)),
    ("reduce", re.compile(r"reduce", re.IGNORECASE)),
    ("gather", re.compile(r"gather", re.IGNORECASE)),
    ("scatter", re.compile(r"scatter", re.IGNORECASE)),
    ("barrier", re.compile(r"barrier", re.IGNORECASE)),
)
# No rank can leave these before all have come, so all leave together.
JOINT: Final = frozenset(("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"))


def collective_of(name: str) -> str:
    """Give which collective a communication kernel or range is; "other" if its name does not say."""
    return next((kind for kind, pattern in _COLLECTIVES if pattern.search(name)), "other")


def communication_kernels(names: Iterable[str]) -> Marks:
    """Mark the names of kernels that move data between ranks."""
    return _marked(_KERNEL, names)


def host_communication(names: Iterable[str]) -> Marks:
    """Mark the ranges in which a backend on the host communicates."""
    return _marked(_HOST, names)


def receives_on_host(names: Iterable[str]) -> Marks:
    """Mark the ranges in which a backend on the host receives from another rank, or waits for it."""
    return _marked(_HOST_RECEIVES, names)


def starts_of_collectives(names: Iterable[str]) -> Marks:
    """Mark operators that only start a collective; the work itself is elsewhere in the trace."""
    return _marked(_STARTS_COLLECTIVE, names)


def synchronising_calls(names: Iterable[str]) -> Marks:
    """Mark runtime calls in which the host waits for a device."""
    return _marked(_SYNCHRONISES, names)


def _marked(pattern: re.Pattern[str], names: Iterable[str]) -> Marks:
    return np.array([pattern.search(name) is not None for name in names], dtype=np.bool_)
