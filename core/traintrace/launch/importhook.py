"""Attach each plugin when the module it traces has been imported, and import nothing for it."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Final, Protocol

from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions

GROUP: Final = "traintrace.plugins"

Attach = Callable[[TraceOptions], Callable[[], None]]


class Plugin(Protocol):
    """An entry point: `name` is the module that triggers it, `load` gives its `attach` out of `module`."""

    @property
    def name(self) -> str:
        """Dotted name of the module whose import triggers it."""

    @property
    def module(self) -> str:
        """Dotted name of the module that holds its `attach`."""

    def load(self) -> Attach:
        """Import the plugin's `attach`."""


def attach_on_import(
    options: TraceOptions, faults: FaultReporter, plugins: Iterable[Plugin] | None = None
) -> Callable[[], None]:
    """Attach each plugin with `options` right after its module has been imported, or now if it has.

    Args:
        options: What each plugin's `attach` gets.
        faults: Takes what a plugin raises; that plugin is then forgotten.
        plugins: Defaults to the entry points of the group `traintrace.plugins` that are installed.

    Returns:
        What ends all of this again.
    """
    found = entry_points(group=GROUP) if plugins is None else plugins
    finder = _PluginFinder(options, faults, found)
    finder.attach_to_loaded()
    sys.meta_path.insert(0, finder)
    return finder.undo


class _PluginFinder(MetaPathFinder):
    """Finds nothing of its own: it has the real finders look, and listens to the loader they give."""

    def __init__(
        self, options: TraceOptions, faults: FaultReporter, plugins: Iterable[Plugin]
    ) -> None:
        self._options = options
        self._faults = faults
        self._waiting: dict[str, list[Plugin]] = {}
        self._detach: list[Callable[[], None]] = []
        self._packages: set[str] = set()  # those of the plugins that wait
        for plugin in plugins:
            with faults.guard(f"the tracing of {plugin.name}"):
                self._packages.add(_package(plugin.module))
                self._waiting.setdefault(plugin.name, []).append(plugin)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Give the spec that the other finders give, if a plugin waits for this module or may be held up by it."""
        # Somebody else's finder may have come before this one for a module that is waited for.
        self.attach_to_loaded()
        is_plugins = self._waiting and _package(fullname) in self._packages
        if fullname not in self._waiting and not is_plugins:
            return None
        spec = self._find_elsewhere(fullname, path, target)
        if spec is not None and spec.loader is not None:
            self._listen(spec, spec.loader)
        return spec

    def attach_to_loaded(self, complete: ModuleSpec | None = None) -> None:
        """Attach to what is there already, once its import is complete.

        Args:
            complete: The module whose code has just run, though Python does not say so yet.
        """
        for name in list(self._waiting):
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if spec is not None and not _is_initializing(spec, complete):
                self._attach(name, complete)

    def undo(self) -> None:
        """Forget who waits, and detach who is attached."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        while self._detach:
            self._detach.pop()()

    def _find_elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _listen(self, spec: ModuleSpec, loader: Loader) -> None:
        """Learn when `loader` has run the module of `spec`.

        The loader itself stays in place, and is as it was once the module runs: it is what the module
        is pickled, reloaded and searched for resources by.
        """
        if isinstance(loader, type) or not hasattr(loader, "__dict__"):
            return  # of the interpreter itself: the next import of anything attaches
        on_loader: Any = loader
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # A loader may load several modules, and be listened to for each.
            if vars(on_loader).get("exec_module") is exec_module:
                del on_loader.exec_module
            run(module)
            if sys.modules.get(spec.name) is module:
                self.attach_to_loaded(spec)

        # If the module raises, the interpreter leaves the frames of its import out of the traceback. It knows
        # them by this name, and ours is no more to the point.
        code = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap>")
        exec_module.__code__ = code
        on_loader.exec_module = exec_module

    def _attach(self, name: str, complete: ModuleSpec | None) -> None:
        # A plugin whose own package is being imported, by whoever imports the plugin before the framework,
        # is not all there. It is attached when that is.
        plugins = [] if _is_helper_process() else self._waiting.pop(name, [])
        held_up = [plugin for plugin in plugins if _is_half_imported(plugin.module, complete)]
        if held_up:
            self._waiting[name] = held_up
        for plugin in plugins:
            if plugin not in held_up:
                with self._faults.guard(f"the tracing of {name}"):
                    self._detach.append(plugin.load()(self._options))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_half_imported(module: str, complete: ModuleSpec | None) -> bool:
    package = _package(module)
    return any(
        _is_initializing(getattr(loaded, "__spec__", None), complete)
        for name, loaded in list(sys.modules.items())
        if _package(name) == package
    )


def _is_initializing(spec: ModuleSpec | None, complete: ModuleSpec | None) -> bool:
    # Python's own mark of a module whose code still runs.
    return spec is not complete and bool(getattr(spec, "_initializing", False))


def _is_helper_process() -> bool:
    """Tell whether this is the fork of a process that trains, e.g. a loader's worker: nothing of ours runs there."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.current_process().daemon
