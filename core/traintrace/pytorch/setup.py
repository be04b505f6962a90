"""Describe what trains: model, device, strategy and loader, for the report's set-up line."""

import os
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.utils.data import DataLoader

from traintrace import facts
from traintrace.pytorch.forward import unwrap
from traintrace.samplers import cpu_count


def describe_model(model: nn.Module | None) -> facts.Setup:
    """Describe the process and, if given, the model; None fields are unknown."""
    setup = facts.Setup(cpu_count=cpu_count(), omp_threads=torch.get_num_threads())
    if model is None:
        return setup
    parameters = list(model.parameters())
    device = parameters[0].device if parameters else torch.device("cpu")
    return replace(
        setup,
        strategy=_strategy(model),
        device_kind=device.type,
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        device_count=1,
        precision=str(parameters[0].dtype).removeprefix("torch.") if parameters else None,
        compiled=type(model).__name__ == "OptimizedModule"
        or getattr(unwrap(model), "_compiled_call_impl", None) is not None,
        parameter_count=_count(parameters),
    )


def _count(parameters: list[nn.Parameter]) -> int | None:
    """Count parameters; None while lazy layers have not seen their first batch."""
    if any(isinstance(parameter, UninitializedParameter) for parameter in parameters):
        return None
    return sum(parameter.numel() for parameter in parameters)


def _strategy(model: nn.Module) -> str:
    names = {
        "DistributedDataParallel": "ddp",
        "FullyShardedDataParallel": "fsdp",
        "DataParallel": "dp",
    }
    for module in (model, getattr(model, "_orig_mod", model), unwrap(model)):
        found = names.get(type(module).__name__)
        if found is not None:
            return found
        if type(module).__name__.startswith("FSDP"):
            return "fsdp"
    distributed = torch.distributed
    many = distributed.is_available() and distributed.is_initialized()
    many = many and distributed.get_world_size() > 1
    many = many or int(os.environ.get("WORLD_SIZE", "1") or 1) > 1
    return "distributed_unknown" if many else "single_process"


def describe_loader(loader: Any) -> tuple[facts.LoaderSetup, int | None]:
    """Give the loader's configuration and its batch size; None where it is not a DataLoader."""
    if not isinstance(loader, DataLoader):
        return facts.LoaderSetup(), getattr(loader, "batch_size", None)
    return (
        facts.LoaderSetup(
            workers=loader.num_workers,
            prefetch_factor=loader.prefetch_factor,
            pin_memory=bool(loader.pin_memory),
            persistent=bool(loader.persistent_workers),
        ),
        loader.batch_size,
    )
