"""Charge the outermost calls of a model to `forward`, without touching the model or its graphs.

The class's `__call__` is replaced, with an identity test: the model keeps its type, pickles, deep-copies
and compiles as before, and a copy of it emits nothing. Inside a graph that is being compiled the
replacement steps aside, which the compiler folds away.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn

from traintrace.accounts import FORWARD
from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import graphs_exist, outside_graphs
from traintrace.pytorch.unseen import callable_modules, watch_for_unseen_calls
from traintrace.recording.journal import Journal
from traintrace.session import Session

_INNER_NAMES: Final = ("_orig_mod", "module", "_fsdp_wrapped_module")


@outside_graphs
def unwrap(model: nn.Module) -> nn.Module:
    """Give the user's own module inside compiled, DDP, DataParallel and FSDP wrappers."""
    seen = 0
    while seen < 8:  # wrappers nest a few deep at most; a user's own `module` attribute ends it too
        inner = _inner(model)
        if inner is None:
            return model
        model, seen = inner, seen + 1
    return model


@outside_graphs
def _inner(module: nn.Module) -> nn.Module | None:
    if not isinstance(module, _wrapper_classes()):
        return None
    for name in _INNER_NAMES:
        inner = getattr(module, name, None)
        if isinstance(inner, nn.Module):
            return inner
    return None


@outside_graphs
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
    session: Session | None = None,
) -> Iterator[Callable[[], None]]:
    """Install what charges calls of `models`; give the functions that undo it.

    A wrapper around one of the models counts as that model, and the model inside it adds nothing.

    Args:
        journal: Where the calls are written.
        models: The modules whose calls count, wrapped or not; a list of modules stands for its members.
        account: The account to charge.
        passes: Asked at each call of a model: True if this call is no forward and only passes
            through (a framework may send its whole training step through the model's call).
        session: Where it is said if training goes on without any call of the models being seen; then
            the calls of their children count. None leaves it at no calls.
    """
    models = callable_modules(models)
    inners = [unwrap(model) for model in models]
    calls = _Calls(journal, account, {id(inner) for inner in inners}, passes)
    if session is not None:
        yield from watch_for_unseen_calls(
            session,
            lambda: calls.last_in >= journal.segments - 1,
            functools.partial(_trace_children, calls, inners),
        )
    for cls in _wrapper_classes():
        yield _patch_class(calls, cls, calls.resolve)
    if graphs_exist():
        # A graph already compiled through a wrapper would be compiled again.
        inners = [unwrap(model) for model in models if _inner(model) is None]
    yield from _trace_modules(calls, inners)


def _trace_modules(calls: "_Calls", modules: list[nn.Module]) -> Iterator[Callable[[], None]]:
    """Install what charges the calls of `modules` themselves."""
    for module in modules:
        if _is_torchs_own(module):
            # Also the class of other people's blocks: use this one instance's own call slot.
            yield from _trace_slot(calls, module)
    for cls in {type(module) for module in modules if not _is_torchs_own(module)}:
        yield _patch_class(calls, cls, None)


def _trace_children(calls: "_Calls", models: list[nn.Module]) -> Iterator[Callable[[], None]]:
    """Install what charges the calls of the direct children of `models`."""
    children = callable_modules(child for model in models for child in model.children())
    return _trace_modules(calls.of_others(children), children)


def _is_torchs_own(module: nn.Module) -> bool:
    return type(module).__module__.partition(".")[0] == "torch"


class _Calls:
    """What the replacements of one `trace_forward` share.

    Attributes:
        identities: `id` of each module whose calls count.
        open_in: The segment in which a call of any of them is open: a model called inside another one
            marks nothing. A segment's end forgets a call whose end was lost to a signal handler.
        last_in: The segment of the latest call; -2 before the first.
        slots: What takes patched call slots off.
    """

    __slots__ = (
        "account",
        "enter",
        "identities",
        "journal",
        "last_in",
        "leave",
        "open_in",
        "passes",
        "slots",
    )

    def __init__(
        self,
        journal: Journal,
        account: int,
        identities: set[int],
        passes: Callable[[nn.Module], bool] | None,
    ) -> None:
        self.journal = journal
        self.account = account
        self.identities = identities
        self.passes = passes
        self.enter = outside_graphs(journal.marker(account))
        self.leave = outside_graphs(journal.marker(~account))
        self.open_in, self.last_in = -1, -2
        self.slots: list[Callable[[], None]] = []

    def of_others(self, modules: list[nn.Module]) -> "_Calls":
        """Give the same for other modules, all of whose calls count."""
        return _Calls(self.journal, self.account, {id(module) for module in modules}, None)

    @outside_graphs
    def resolve(self, wrapper: nn.Module) -> nn.Module:
        """Give the model inside `wrapper`, which is being called."""
        model = unwrap(wrapper)
        if self.slots and len(getattr(wrapper, "device_ids", None) or ()) > 1:
            # DataParallel's replicas copy the slot and would compute with the original's weights; the
            # call of the wrapper is what counts.
            while self.slots:
                self.slots.pop()()
        return model

    @outside_graphs
    def counts(self, model: nn.Module) -> bool:
        """Say whether this call of a traced module is to be charged."""
        journal = self.journal
        if get_ident() != journal.owner and journal.is_foreign(get_ident()):
            return False
        if self.open_in == journal.segments:
            return False
        return self.passes is None or not self.passes(model)


def _patch_class(
    calls: _Calls, cls: type[nn.Module], resolve: Callable[[nn.Module], nn.Module] | None
) -> Callable[[], None]:
    enter, leave, identities = calls.enter, calls.leave, calls.identities
    plain, now, leave_code = calls.journal.plain, calls.journal.now, ~calls.account
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
            calls.open_in = calls.last_in = calls.journal.segments
            enter()
            return call(*args, **kwargs)
        finally:
            calls.open_in = -1
            if plain is None:
                leave()
            else:
                plain((now(), leave_code))

    return replace_attribute(cls, "__call__", outside_graphs(__call__))


def _trace_slot(calls: _Calls, module: nn.Module) -> Iterator[Callable[[], None]]:
    """Use the call slot of `module`, also after `module.compile()` has put another call there."""
    patches = [_patch_slot(calls, module)]

    def take_off() -> None:
        while patches:
            patches.pop()()

    cls = type(module)
    original = cls.compile

    @functools.wraps(original)
    def compile(compiled: nn.Module, *args: Any, **kwargs: Any) -> None:
        original(compiled, *args, **kwargs)
        if compiled is module and patches and calls.journal.owner != -1:
            patches.append(_patch_slot(calls, module))

    calls.slots.append(take_off)
    yield take_off
    yield replace_attribute(cls, "compile", compile)


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
            calls.open_in = calls.last_in = calls.journal.segments
            enter()
            return call(*args, **kwargs)
        finally:
            calls.open_in = -1
            leave()

    return replace_attribute(module, "_compiled_call_impl", outside_graphs(call_traced))
