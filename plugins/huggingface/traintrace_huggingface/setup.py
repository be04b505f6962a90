"""What can be read off a Trainer: what trains, and what of it can be measured."""

from dataclasses import replace
from typing import Any

from traintrace.facts import Setup
from traintrace.pytorch.setup import describe_loader, describe_model


def describe(trainer: Any, loader: Any = None) -> Setup:
    """Describe what trains: all of it with the loader that `train()` made, else what is known before."""
    arguments = trainer.args
    model = trainer.model if loader is None else trainer.model_wrapped
    setup = describe_model(model)
    loader_setup, batch_size = describe_loader(loader)
    return replace(
        setup,
        strategy=_strategy(trainer, setup.strategy),
        loader=loader_setup,
        batch_size=batch_size or trainer._train_batch_size,
        accumulation=arguments.gradient_accumulation_steps,
        precision="bf16" if arguments.bf16 else "fp16" if arguments.fp16 else setup.precision,
    )


def _strategy(trainer: Any, seen: str | None) -> str | None:
    """Give the strategy that was `seen` on the model, or else the one that the Trainer was told to use."""
    if seen not in (None, "single_process", "distributed_unknown"):
        return seen
    if getattr(trainer, "is_deepspeed_enabled", False):
        return "deepspeed"
    if getattr(trainer, "is_fsdp_enabled", False):
        plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
        return "fsdp2" if getattr(plugin, "fsdp_version", 1) == 2 else "fsdp"
    # The Trainer's word for several devices in one process, which it gives to `DataParallel`.
    parallel_mode = getattr(trainer.args, "parallel_mode", None)
    return "dp" if getattr(parallel_mode, "value", None) == "not_distributed" else seen


def updates_in_backward(trainer: Any) -> bool:
    """Say whether weights are updated inside backward, so that the two cannot be told apart."""
    optimizer = str(getattr(trainer.args.optim, "value", trainer.args.optim))
    return optimizer.endswith(("layerwise", "lomo")) or bool(
        getattr(trainer, "is_deepspeed_enabled", False)
    )


def moves_batches(trainer: Any) -> bool:
    """Say whether batches are moved to a device."""
    return bool(trainer.args.device.type != "cpu")


def collects_as_usual(trainer: Any) -> bool:
    """Say whether the collection of batches is the Trainer's own, so that it is all waiting for input."""
    method = getattr(trainer, "get_batch_samples", None)
    function = getattr(method, "__func__", method)
    # Where it was really defined: `functools.wraps` copies a name, but not this.
    return getattr(function, "__globals__", {}).get("__name__") == "transformers.trainer"
