"""Which torch call is which boundary in a hand-written loop; installed once and undone at the end."""

from typing import Any, TypeVar

import torch
from torch import nn

from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.pytorch.agreement import agree_on_run, identity_of_process
from traintrace.pytorch.backward import trace_backward
from traintrace.pytorch.collectives import trace_collectives
from traintrace.pytorch.events import device_clock
from traintrace.pytorch.flops import StepFlopCounter
from traintrace.pytorch.forward import trace_forward
from traintrace.pytorch.loaders import trace_loaders
from traintrace.pytorch.loopstate import LoopState
from traintrace.pytorch.memory import memory_reader
from traintrace.pytorch.optimizer import trace_foreign_optimizer, trace_optimizers
from traintrace.pytorch.ownwork import mark_own_work
from traintrace.pytorch.profiling import TorchProfiler
from traintrace.pytorch.runtime import torch_runtime
from traintrace.pytorch.scalars import read_scalar
from traintrace.pytorch.setup import describe_model
from traintrace.pytorch.transfers import trace_transfers
from traintrace.pytorch.useddevices import UsedDevices
from traintrace.pytorch.watches import torch_watches
from traintrace.runs.folder import Run
from traintrace.runs.start import TOOL_VERSION
from traintrace.session import Session
from traintrace_plain_torch.loopsession import LoopSession

Kind = TypeVar("Kind", bound=Session)


def open_session(
    model: nn.Module | None, optimizer: Any, options: TraceOptions, loop: LoopState
) -> LoopSession:
    """Open a session for a hand-written loop: hooks in place, and the span just begun."""
    session = new_session(LoopSession, options)
    with session.setting_up():
        with session.faults.guard("the description of the model"):
            session.setup = describe_model(model)
        if model is None and optimizer is None:
            # Nothing to follow: the user marks phases and steps, and names the loader.
            session.unmeasured["input_wait"] = (
                "batches were not requested through tracer.batches(loader)"
            )
        else:
            loop.model = model
            install_on_loop(session, optimizer, loop)
            if session.level != "step":
                _keep(session, forward_hooks(session, model, optimizer))
        session.begin()
    return session


def new_session(kind: type[Kind], options: TraceOptions) -> Kind:
    """Make the session of a loop; nothing is installed and the span has not begun."""
    clock, no_clock = device_clock()
    session = kind(
        options,
        PluginIdentity("plain_torch", TOOL_VERSION, "torch", torch.__version__),
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
            packages=("torch", "numpy", "accelerate", "deepspeed"),
        ),
        on_finish=_report,
        identity=identity_of_process(),
    )
    if no_clock is not None:
        session.unmeasured["device_clock"] = no_clock
    return session


def install_on_loop(session: Session, optimizer: Any, loop: LoopState) -> None:
    """Install the table, but for the model's row: torch call -> account.

    An optimizer that is no torch optimizer has to be given.

    | torch call                          | account                                  |
    |-------------------------------------|------------------------------------------|
    | next() of a DataLoader's iterator   | input_wait, if it asks for training data |
    | iter(DataLoader)                    | epoch_boundary, likewise                 |
    | model(...)                          | forward                                  |
    | loss.backward(), autograd.grad      | backward (gradient_sync after own work)  |
    | optimizer.step()                    | optimizer, and an update was attempted   |
    | scaler.step(optimizer)              | an update was attempted, maybe skipped   |
    | tensor.to(device), tensor.cuda()    | h2d                                      |
    | torch.distributed.all_reduce(...)   | communication                            |
    """
    phases = session.level != "step"
    hooks = [
        trace_loaders(session, loop, optimizer),
        trace_optimizers(session, charge=phases),
    ]
    if not phases:
        for name in ("h2d", "forward", "backward", "optimizer"):
            session.unmeasured[name] = 'the trace level is "step"'
    else:
        hooks += [trace_foreign_optimizer(session, optimizer), trace_backward(session.journal)]
        hooks += [*_transfer_hooks(session), trace_collectives(session)]
    _keep(session, hooks)


def follow_model(session: Session, model: nn.Module) -> None:
    """Charge the calls of one more model to `forward`, from now to the end of the span."""
    if session.level != "step":
        _keep(session, forward_hooks(session, model))


def _keep(session: Session, hooks: list[Any]) -> None:
    for installed in hooks:
        for undo in installed:
            session.undo.callback(undo)


def forward_hooks(session: Session, model: nn.Module | None, optimizer: Any = None) -> list[Any]:
    """Give what installs the model's row of the table, and where its own backward work ends."""
    if model is None:
        session.unmeasured["forward"] = "no model was given to trace(model)"
        return []
    if isinstance(model, torch.jit.ScriptModule):
        session.unmeasured["forward"] = "the calls of a ScriptModule cannot be seen"
        return []
    return [
        trace_forward(session.journal, [model], session=session),
        mark_own_work(session, model, optimizer),
    ]


def _transfer_hooks(session: Session) -> list[Any]:
    if not torch.accelerator.is_available():
        session.unmeasured["h2d"] = "no device"
        return []
    return [trace_transfers(session.journal)]


def _report(run: Run, print_report: bool) -> None:
    from traintrace_reporting.finish import finish_run

    finish_run(run, print_report=print_report, stream=None)
