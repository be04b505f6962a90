"""Traces as Kineto writes them, made by hand with a known answer; times in us, as in the files."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traintrace_analysis.traces import Trace
from traintrace_reporting.traces.kineto import read_trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "ampere_sgemm_128x64_tn"
BASE_NS = 1_790_857_026_000_000_000


class KinetoFile:
    """Collects events; `write` and `read` give them as a file and as a trace."""

    def __init__(self, rank: int | None = None, world_size: int = 2) -> None:
        self.events: list[dict[str, Any]] = []
        self.head: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
        if rank is not None:
            self.head["distributedInfo"] = {"rank": rank, "world_size": world_size}
        self._correlation = 0

    def event(self, cat: str, name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        """Add an event with a length."""
        entry = {
            "ph": "X", "cat": cat, "name": name, "ts": start, "dur": round(end - start, 3),
            "pid": more.pop("pid", 100), "tid": more.pop("tid", 100), "args": more,
        }  # fmt: skip
        self.events.append(entry)
        return entry

    def kernel(
        self,
        start: float,
        end: float,
        name: str = GEMM,
        *,
        stream: int = 7,
        device: int = 0,
        launched: float | None = None,
        cat: str = "kernel",
        correlation: int | None = None,
        group: str | None = None,
    ) -> int:
        """Add a device activity, with its launch if `launched` (its end) is given; give the correlation."""
        if correlation is None:
            self._correlation += 1
            correlation = self._correlation
        if launched is not None:
            self.call("cudaLaunchKernel", launched - 1.0, launched, correlation)
        self.event(
            cat, name, start, end, pid=device, tid=stream,
            device=device, stream=stream, correlation=correlation,
            **({} if group is None else {"Process Group Ranks": group}),
        )  # fmt: skip
        return correlation

    def call(self, name: str, start: float, end: float, correlation: int = 0) -> None:
        """Add a call of the runtime on the host."""
        self.event("cuda_runtime", name, start, end, correlation=correlation)

    def steps(self, *borders: float, first: int = 1, name: str = "ProfilerStep") -> None:
        """Mark steps between borders, and what a device shows of the same mark."""
        for number, (start, end) in enumerate(itertools.pairwise(borders), first):
            self.event("user_annotation", f"{name}#{number}", start, end)
            self.event("gpu_user_annotation", f"{name}#{number}", start, end, pid=0, tid=7)

    def text(self) -> str:
        """Give the file's content."""
        return json.dumps(self.head | {"traceEvents": self.events})

    def write(self, path: Path) -> Path:
        """Write the file."""
        path.write_text(self.text(), encoding="utf-8")
        return path

    def read(self, folder: Path, name: str = "trace.json") -> Trace:
        """Write the file and read it again."""
        return read_trace(self.write(folder / name))


def write_all(folder: Path, files: Sequence[KinetoFile]) -> list[Trace]:
    """Write several ranks' files and read them."""
    return [one.read(folder, f"rank{number}.json") for number, one in enumerate(files)]
