"""`trace`: the context manager around a hand-written training loop, and what it offers inside.

with trace(model, optimizer):
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""

from pathlib import Path
from typing import Any, Literal

from torch import nn

from traintrace.options import LevelOption, TraceOptions
from traintrace_plain_torch.loop import Tracer


def trace(
    model: nn.Module | None = None,
    optimizer: Any = None,
    *,
    run_dir: str | Path = "runs",
    name: str | None = None,
    level: LevelOption = "auto",
    enabled: bool = True,
    max_steps: int | None = None,
    warmup_steps: int | None = None,
    step_memory: bool = True,
    print_report: bool = True,
    flops_per_step: float | Literal["count"] | None = None,
    peak_tflops: float | None = None,
    profile_steps: tuple[int, int] | None = None,
) -> Tracer:
    """Trace the training loop inside the `with` block.

    Args:
        model: The model whose calls are `forward`, as it is called (compiled or wrapped is fine).
        optimizer: The optimizer; with it, a `step()` block without an update is a micro-batch of the
            update to come. Without it, each `step()` block is a step.
        run_dir: Folder that holds runs.
        name: Name of this run; None makes one.
        level: See `traintrace.TraceOptions`.
        enabled: False traces nothing, at no cost.
        max_steps: Stop recording after this many steps; training goes on.
        warmup_steps: Treat this many first steps as warm-up; None finds the number.
        step_memory: Record the memory of each step.
        print_report: Print the report to stderr at the end.
        flops_per_step: Floating-point operations of one step, or "count" to count those of a few steps.
        peak_tflops: What the device can do [1e12 operations/s]; None looks it up by its name.
        profile_steps: First and last of the steps that torch.profiler traces, into the run's folder.

    Raises:
        UsageError: `model` is no model, or an option has an impossible value.
    """
    options = TraceOptions(
        run_dir=run_dir,
        name=name,
        level=level,
        enabled=enabled,
        max_steps=max_steps,
        warmup_steps=warmup_steps,
        step_memory=step_memory,
        print_report=print_report,
        flops_per_step=flops_per_step,
        peak_tflops=peak_tflops,
        profile_steps=profile_steps,
    )
    return Tracer(model, optimizer, options, awaits_update=optimizer is not None)
