"""Trace a hand-written PyTorch training loop: `with trace(model, optimizer) as tracer: ...`."""

# First: under `traintrace run` its import attaches the plugin, which must not find half-made modules of ours.
import torch  # noqa: F401

from traintrace import log, region
from traintrace_plain_torch.loop import Tracer
from traintrace_plain_torch.steptracing import trace_step
from traintrace_plain_torch.tracing import trace

__all__ = ["Tracer", "log", "region", "trace", "trace_step"]
