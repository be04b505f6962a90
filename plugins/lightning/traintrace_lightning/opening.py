"""Open the session of one fit: who traces what, on which device, with which configuration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from traintrace import facts
from traintrace.clock import DeviceClock
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.pytorch.agreement import agree_on_run
from traintrace.pytorch.events import device_clock
from traintrace.pytorch.flops import StepFlopCounter
from traintrace.pytorch.graphs import runs_compiled
from traintrace.pytorch.memory import AllocatorMemory
from traintrace.pytorch.profiling import TorchProfiler
from traintrace.pytorch.runtime import torch_runtime
from traintrace.pytorch.scalars import read_scalar
from traintrace.pytorch.setup import describe_loader, describe_model
from traintrace.pytorch.useddevices import UsedDevices
from traintrace.pytorch.watches import torch_watches
from traintrace.runs.folder import Run
from traintrace.runs.identity import Identity
from traintrace.runs.start import TOOL_VERSION
from traintrace.session import Session
from traintrace_lightning.namespaces import framework_of, is_lightnings_own, is_overridden

_STRATEGIES: Final = (
    ("SingleDevice", "single_process"),
    ("DDP", "ddp"),
    ("ModelParallel", "fsdp2"),
    ("FSDP", "fsdp"),
    ("DeepSpeed", "deepspeed"),
)
_TRANSFER_HOOKS: Final = (
    "on_before_batch_transfer",
    "transfer_batch_to_device",
    "on_after_batch_transfer",
)


def open_session(trainer: Any, options: TraceOptions) -> Session:
    """Open a session for the fit that `trainer` is setting up; the span has not begun."""
    framework, version = framework_of(trainer)
    device: torch.device = trainer.strategy.root_device
    clock, no_clock = clock_of(device)
    session = Session(
        options,
        PluginIdentity("lightning", TOOL_VERSION, framework, version),
        Ports(
            memory=AllocatorMemory(device) if device.type == "cuda" else None,
            device_clock=clock,
            read_scalar=read_scalar,
            agree_on_run=agree_on_run,
            watches=torch_watches(),
            used_devices=UsedDevices(),
            flops=StepFlopCounter(),
            runtime=torch_runtime,
            profiler=TorchProfiler,
            packages=("torch", "numpy", "lightning", "pytorch-lightning"),
        ),
        on_finish=_report,
        identity=_identity_of(trainer),
    )
    if no_clock is not None:
        session.unmeasured["device_clock"] = no_clock
    if session.level == "step":
        for name in ("h2d", "forward", "backward", "optimizer"):
            session.unmeasured[name] = 'the trace level is "step"'
    return session


def _identity_of(trainer: Any) -> Identity:
    """Give who this process is: Lightning starts processes of its own and tells them by other variables."""
    known = Identity.from_environment()
    is_lightnings = trainer.world_size > 1 and _starts_processes(trainer.strategy)
    return replace(
        known,
        rank=trainer.global_rank,
        local_rank=trainer.local_rank,
        world_size=trainer.world_size,
        node=trainer.node_rank,
        nodes=trainer.num_nodes,
        launcher="lightning" if is_lightnings and known.launcher == "none" else known.launcher,
    )


def _starts_processes(strategy: Any) -> bool:
    cluster = getattr(strategy, "cluster_environment", None)
    launcher = getattr(strategy, "launcher", None)
    # A process that was spawned or forked has LOCAL_RANK, which reads as if others had started it.
    multiplies = any("MultiProcessing" in kind.__name__ for kind in type(launcher).__mro__)
    return multiplies or not getattr(cluster, "creates_processes_externally", True)


def clock_of(device: torch.device) -> tuple[DeviceClock | None, str | None]:
    """Give the clock of the device that trains, or the reason why there is none."""
    return (None, "no device") if device.type == "cpu" else device_clock()


def has_transfer(trainer: Any) -> bool:
    """Say whether there is a transfer to time: to a device, or in a hook of the user."""
    if trainer.strategy.root_device.type != "cpu":
        return True
    owners = (trainer.lightning_module, trainer.datamodule)
    return any(is_overridden(owner, hook) for owner in owners for hook in _TRANSFER_HOOKS)


def describe(trainer: Any) -> facts.Setup:
    """Describe the configuration of the fit; its loaders exist by now."""
    module = trainer.lightning_module
    setup = describe_model(module)
    loader, batch_size = describe_loader(_first(trainer.train_dataloader))
    return replace(
        setup,
        strategy=strategy_name(trainer.strategy),
        device_kind=trainer.strategy.root_device.type,
        precision=str(trainer.precision),
        compiled=is_compiled(module) or any(map(runs_compiled, module.modules())),
        accumulation=trainer.accumulate_grad_batches,
        batch_size=batch_size,
        loader=loader,
    )


def is_compiled(module: Any) -> bool:
    """Say whether the Lightning module itself was given through `torch.compile`."""
    return getattr(module, "_compiler_ctx", None) is not None


def strategy_name(strategy: Any) -> str:
    """Give our name of a strategy that all plugins know, else Lightning's own."""
    for cls in type(strategy).__mro__:
        for start, name in _STRATEGIES:
            if cls.__name__.startswith(start):
                return name
        if is_lightnings_own(cls):
            break  # others derive from DDP's, too
    return str(getattr(strategy, "strategy_name", None) or type(strategy).__name__)


def _first(loaders: Any) -> Any:
    """Give the first of nested loaders; what it says stands for all."""
    while isinstance(loaders, (Mapping, list, tuple)) and loaders:
        loaders = next(iter(loaders.values() if isinstance(loaders, Mapping) else loaders))
    return loaders


def _report(run: Run, print_report: bool) -> None:
    from traintrace_reporting.finish import finish_run

    finish_run(run, print_report=print_report, stream=None)
