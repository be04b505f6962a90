"""What around a process changes its speed or its results: the processor, and variables of the environment."""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# None of these holds a host, a path or a secret; who adds one makes sure of that.
FLAGS: Final = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "PYTHONHASHSEED",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TOKENIZERS_PARALLELISM",
    "TORCHDYNAMO_DISABLE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_COMPILE_DISABLE",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_NCCL_BLOCKING_WAIT",
)
_CPUINFO: Final = Path("/proc/cpuinfo")
_HARMLESS: Final = re.compile(r"[A-Za-z0-9_.,:;=+ -]{0,80}")


def processor_name(cpuinfo: Path = _CPUINFO) -> str | None:
    """Give what the first processor calls itself; None if the system does not say."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name" and value.strip():
                    return " ".join(value.split())[:120]
    except OSError:
        pass  # no Linux
    return platform.processor() or None


def speed_flags(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Give the variables in `FLAGS` that are set; "set" in place of a value that may be a path."""
    return {
        name: environment[name] if _HARMLESS.fullmatch(environment[name]) else "set"
        for name in FLAGS
        if name in environment
    }
