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
    journal: Journal,
    models: list[nn.Module],
    account: int = FORWARD,
    *,
    passes: Callable[[nn.Module], bool] | None = None,
) -> Iterator[Callable[[], None]]:
    """Install what charges calls of `models`; give the functions that undo it.

    A wrapper around one of the models counts as that model, and the model inside it adds nothing.

    Args:
        journal: Where the calls are written.
        models: The modules whose calls count, wrapped or not.
        account: The account to charge.
        passes: Asked at each call of a model: True if this call is no forward and only passes
            through (a framework may send its whole training step through the model's call).
    """
    inners = [unwrap(model) for model in models]
    calls = _Calls(journal, account, {id(inner) for inner in inners}, passes)
    for cls in _wrapper_classes():
        yield _patch_class(calls, cls, unwrap)
    if _graphs_exist():
        # A graph already compiled through a wrapper would be compiled again.
        inners = [unwrap(model) for model in models if _inner(model) is None]
    for inner in inners:
        if type(inner).__module__.partition(".")[0] == "torch":
            # Also the class of other people's blocks: use this one instance's own call slot.
            yield _patch_slot(calls, inner)
    own = {type(inner) for inner in inners if type(inner).__module__.partition(".")[0] != "torch"}
    for cls in own:
        yield _patch_class(calls, cls, None)


class _Calls:
    """What the replacements of one `trace_forward` share.

    Attributes:
        identities: `id` of each module whose calls count.
        open_in: The segment in which a call of any of them is open: a model called inside another one
            marks nothing. A segment's end forgets a call whose end was lost to a signal handler.
    """

    __slots__ = ("enter", "identities", "journal", "leave", "open_in", "passes")

    def __init__(
        self,
        journal: Journal,
        account: int,
        identities: set[int],
        passes: Callable[[nn.Module], bool] | None,
    ) -> None:
        self.journal = journal
        self.identities = identities
        self.passes = passes
        self.enter, self.leave = journal.marker(account), journal.marker(~account)
        self.open_in = -1

    def counts(self, model: nn.Module) -> bool:
        """Say whether this call of a traced module is to be charged."""
        journal = self.journal
        if get_ident() != journal.owner and journal.is_foreign(get_ident()):
            return False
        if self.open_in == journal.segments:
            return False
        return self.passes is None or not self.passes(model)


def _graphs_exist() -> bool:
    if "torch._dynamo" not in sys.modules:
        return False
    counters: Any = sys.modules["torch._dynamo.utils"].counters
    return bool(counters["stats"].get("unique_graphs"))


def _patch_class(
    calls: _Calls, cls: type[nn.Module], resolve: Callable[[nn.Module], nn.Module] | None
) -> Callable[[], None]:
    enter, leave, identities = calls.enter, calls.leave, calls.identities
    is_compiling, counts = torch.compiler.is_compiling, calls.counts
    own = cls.__dict__.get("__call__")

    def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # Looked up at each call, so that other tools which replace a base's `__call__` still work.
        inherited: Any = super(cls, module)
        call = inherited.__call__ if own is None else own.__get__(module)
        if is_compiling():
            return call(*args, **kwargs)
        model = module if resolve is None else resolve(module)
        if id(model) not in identities or not counts(model):
            return call(*args, **kwargs)
        try:
            calls.open_in = calls.journal.segments
            enter()
            return call(*args, **kwargs)
        finally:
            calls.open_in = -1
            leave()

    return replace_attribute(cls, "__call__", __call__)


def _patch_slot(calls: _Calls, module: nn.Module) -> Callable[[], None]:
    """Use the slot in which `Module.compile` puts its call; torch leaves it out of pickles and copies."""
    enter, leave = calls.enter, calls.leave
    is_compiling, counts = torch.compiler.is_compiling, calls.counts
    compiled: Any = vars(module).get("_compiled_call_impl")

    def call_traced(*args: Any, **kwargs: Any) -> Any:
        call = module._call_impl if compiled is None else compiled
        if is_compiling() or not counts(module):
            return call(*args, **kwargs)
        try:
            calls.open_in = calls.journal.segments
            enter()
            return call(*args, **kwargs)
        finally:
            calls.open_in = -1
            leave()

    return replace_attribute(module, "_compiled_call_impl", call_traced)
