"""Open a session for one `train()` of a Trainer, with its seams in place and the span begun."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import transformers

from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.pytorch.agreement import agree_on_run, identity_of_process
from traintrace.pytorch.events import device_clock
from traintrace.pytorch.flops import StepFlopCounter
from traintrace.pytorch.memory import memory_reader
from traintrace.pytorch.profiling import TorchProfiler
from traintrace.pytorch.runtime import torch_runtime
from traintrace.pytorch.scalars import read_scalar
from traintrace.pytorch.useddevices import UsedDevices
from traintrace.pytorch.watches import torch_watches
from traintrace.runs.folder import Run
from traintrace.session import Session
from traintrace_huggingface.seams import Seams
from traintrace_huggingface.setup import describe


def open_session(trainer: Any, options: TraceOptions, *, is_training: bool = False) -> Session:
    """Set everything up and begin the span; on a fault nothing stays installed.

    Args:
        trainer: The Trainer to trace.
        options: The callback's options.
        is_training: The Trainer's inner loop is running already.
    """
    clock, no_clock = device_clock()
    session = Session(
        options,
        PluginIdentity("huggingface", _own_version(), "transformers", transformers.__version__),
        Ports(
            memory=memory_reader(),
            device_clock=clock,
            read_scalar=read_scalar,
            agree_on_run=agree_on_run,
            watches=torch_watches(),
            used_devices=UsedDevices(),
            flops=StepFlopCounter(),
            runtime=torch_runtime,
            profiler=TorchProfiler,
            packages=("torch", "transformers", "accelerate", "numpy", "deepspeed", "peft"),
        ),
        on_finish=_report,
        identity=identity_of_process(),
    )
    if no_clock is not None:
        session.unmeasured["device_clock"] = no_clock
    with session.setting_up():
        session.setup = describe(trainer)
        seams = Seams(session, trainer)
        seams.install()
        if is_training:
            seams.join_attempt()
        else:
            seams.await_attempts()
        session.begin()
    return session


def _own_version() -> str:
    try:
        return version("traintrace-huggingface")
    except PackageNotFoundError:  # a plain source tree
        return "0.1.0"


def _report(run: Run, print_report: bool) -> None:
    from traintrace_reporting.finish import finish_run

    finish_run(run, print_report=print_report, stream=None)
