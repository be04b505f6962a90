"""Charge the outermost calls of a model to `forward`, without touching the model or its graphs.

The class's `__call__` is replaced, with an identity test: the model keeps its type, pickles, deep-copies
and compiles as before, and a copy of it emits nothing. Inside a graph that is being compiled the
replacement steps aside, which the compiler folds away.
"""

import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn

from traintrace.accounts import FORWARD
from traintrace.journal import Journal
from traintrace.patching import replace_attribute

_INNER_NAMES: Final = ("_orig_mod", "module", "_fsdp_wrapped_module")


def unwrap(model: nn.Module) -> nn.Module:
    """Give the user's own module inside compiled, DDP, DataParallel and FSDP wrappers."""
    seen = 0
    while seen < 8:  # wrappers nest a few deep at most; a user's own `module` attribute ends it too
        inner = _inner(model)
        if inner is None:
            return model
        model, seen = inner, seen + 1
    return model


def _inner(module: nn.Module) -> nn.Module | None:
    if not isinstance(module, _wrapper_classes()):
        return None
    for name in _INNER_NAMES:
        inner = getattr(module, name, None)
        if isinstance(inner, nn.Module):
            return inner
    return None


def _wrapper_classes() -> tuple[type[nn.Module], ...]:
    """Give torch's wrapper classes that are loaded; none is imported for this."""
    found = [nn.DataParallel]
    for module_name, class_name in (
        ("torch.nn.parallel.distributed", "DistributedDataParallel"),
        ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
        ("torch._dynamo.eval_frame", "OptimizedModule"),
    ):
        module = sys.modules.get(module_name)
        if module is not None and hasattr(module, class_name):
            found.append(getattr(module, class_name))
    return tuple(found)


def trace_forward(
    journal: Journal, models: list[nn.Module], account: int = FORWARD
) -> Iterator[Callable[[], None]]:
    """Install what charges calls of `models`; give the functions that undo it.

    A wrapper around one of the models counts as that model, and the model inside it adds nothing.

    Args:
        journal: Where the calls are written.
        models: The modules whose calls count, wrapped or not.
        account: The account to charge.
    """
    inners = [unwrap(model) for model in models]
    identities = {id(inner) for inner in inners}
    wrapped = {type(model) for model in models if _inner(model) is not None}
    for cls in _wrapper_classes():
        yield _patch_class(journal, cls, lambda module: id(unwrap(module)) in identities, account)
    if wrapped and _graphs_exist():
        return  # a graph already compiled through the wrapper would be compiled again
    for inner in inners:
        if type(inner).__module__.partition(".")[0] == "torch":
            # Also the class of other people's blocks: use this one instance's own call slot.
            yield _patch_slot(journal, inner, account)
    own = {type(inner) for inner in inners if type(inner).__module__.partition(".")[0] != "torch"}
    for cls in own:
        yield _patch_class(journal, cls, lambda module: id(module) in identities, account)


def _graphs_exist() -> bool:
    if "torch._dynamo" not in sys.modules:
        return False
    counters: Any = sys.modules["torch._dynamo.utils"].counters
    return bool(counters["stats"].get("unique_graphs"))


def _patch_class(
    journal: Journal,
    cls: type[nn.Module],
    is_traced: Callable[[nn.Module], bool],
    account: int,
) -> Callable[[], None]:
    enter, leave = journal.bounded_marker(account), journal.marker(~account)
    is_compiling, is_foreign = torch.compiler.is_compiling, journal.is_foreign
    own = cls.__dict__.get("__call__")

    def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # Looked up at each call, so that other tools which replace a base's `__call__` still work.
        inherited: Any = super(cls, module)
        call = inherited.__call__ if own is None else own.__get__(module)
        if is_compiling() or not is_traced(module) or is_foreign(get_ident()):
            return call(*args, **kwargs)
        enter()
        try:
            return call(*args, **kwargs)
        finally:
            leave()

    return replace_attribute(cls, "__call__", __call__)


def _patch_slot(journal: Journal, module: nn.Module, account: int) -> Callable[[], None]:
    """Use the slot in which `Module.compile` puts its call; torch leaves it out of pickles and copies."""
    enter, leave = journal.bounded_marker(account), journal.marker(~account)
    is_compiling, is_foreign = torch.compiler.is_compiling, journal.is_foreign
    compiled: Any = vars(module).get("_compiled_call_impl")

    def call_traced(*args: Any, **kwargs: Any) -> Any:
        call = module._call_impl if compiled is None else compiled
        if is_compiling() or is_foreign(get_ident()):
            return call(*args, **kwargs)
        enter()
        try:
            return call(*args, **kwargs)
        finally:
            leave()

    return replace_attribute(module, "_compiled_call_impl", call_traced)
