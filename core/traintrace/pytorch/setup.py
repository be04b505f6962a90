"""Describe what trains: model, device, strategy and loader, for the report's set-up line."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.utils.data import DataLoader, IterableDataset

from traintrace import facts
from traintrace.pytorch.dense import dense_model
from traintrace.pytorch.forward import unwrap
from traintrace.pytorch.graphs import runs_compiled
from traintrace.pytorch.sizes import batch_bytes
from traintrace.pytorch.strategy import strategy_of
from traintrace.pytorch.wrapping import reads_for_all
from traintrace.samplers import cpu_count
from traintrace.session import Session


def describe_model(model: nn.Module | None) -> facts.Setup:
    """Describe the process and, if given, the model; None fields are unknown."""
    setup = facts.Setup(cpu_count=cpu_count(), omp_threads=torch.get_num_threads())
    if model is None:
        return setup
    parameters = list(model.parameters())
    device = parameters[0].device if parameters else torch.device("cpu")
    return replace(
        setup,
        strategy=strategy_of(model),
        device_kind=device.type,
        device_name=_device_name(device),
        device_count=1,
        precision=str(parameters[0].dtype).removeprefix("torch.") if parameters else None,
        compiled=runs_compiled(model) or runs_compiled(unwrap(model)),
        parameter_count=_count(parameters),
        dense=dense_model(unwrap(model)),
    )


def _device_name(device: torch.device) -> str | None:
    """Give the name by which the table of peaks knows a device; None if it does not tell one.

    One Apple chip is sold with several numbers of GPU cores, which are part of its name here; an older
    torch cannot tell them.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "mps":
        return None
    name: Any = getattr(torch.backends.mps, "get_name", None)
    cores: Any = getattr(torch.backends.mps, "get_core_count", None)
    return None if name is None or cores is None else f"{name()} ({cores()} GPU cores)"


def _count(parameters: list[nn.Parameter]) -> int | None:
    """Count parameters; None while lazy layers have not seen their first batch."""
    if any(isinstance(parameter, UninitializedParameter) for parameter in parameters):
        return None
    return sum(parameter.numel() for parameter in parameters)


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
            reads_for_all=reads_for_all(loader),
        ),
        loader.batch_size,
    )


def describe_iterator(setup: facts.Setup, iterator: Any) -> facts.Setup:
    """Add what the iterator of a torch DataLoader tells about its loader, which may not be at hand."""
    sampler = getattr(iterator, "_index_sampler", None)
    loader = facts.LoaderSetup(
        workers=getattr(iterator, "_num_workers", None),
        prefetch_factor=getattr(iterator, "_prefetch_factor", None),
        pin_memory=getattr(iterator, "_pin_memory", None),
        persistent=getattr(iterator, "_persistent_workers", None),
    )
    return replace(setup, loader=loader, batch_size=getattr(sampler, "batch_size", None))


def weigh_first_batch(session: Session, batch: Any) -> None:
    """Note the bytes of a training batch in the run's set-up, unless those of another are there."""
    with session.faults.guard("the bytes of a batch"):
        if session.setup.batch_bytes is None:
            session.setup = replace(session.setup, batch_bytes=batch_bytes(batch))


def known_length(batches: Any) -> int | None:
    """Give the number of batches in one pass, where asking for it changes nothing.

    Returns:
        The length of a list, a tuple, or a DataLoader whose samplers are torch's own; else None. The
        `__len__` of anything else is the user's code, which may draw random numbers, and torch warns
        after the length of an iterable dataset was asked for.
    """
    if type(batches) in (list, tuple):
        return len(batches)
    if not isinstance(batches, DataLoader) or isinstance(batches.dataset, IterableDataset):
        return None
    for sampler in (batches.sampler, batches.batch_sampler):
        if sampler is not None and not type(sampler).__module__.startswith("torch.utils.data."):
            return None
    return len(batches)
