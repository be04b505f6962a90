"""Frameworks and plugins that a test can import, and the import hook set around them."""

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from traintrace import TraceOptions
from traintrace.faults import FaultReporter
from traintrace.launch.importhook import Attach, attach_on_import

OPTIONS = TraceOptions(level="host")
SOURCES = {
    "frame/__init__.py": "def __getattr__(name):\n    import importlib\n    return importlib.import_module('.' + name, __name__)\n",
    "frame/trainer.py": "import frame.other\nclass Trainer:\n    pass\ncomplete = True\n",
    "frame/other.py": "",
    "frame/data.txt": "rows",
    "frame/fails.py": "raise ImportError('not today')\n",
    "tool.py": "complete = True\n",
}


@dataclass
class Plugin:
    """A plugin that notes what it saw when it was attached."""

    name: str
    error: Exception | None = None
    seen: list[Any] = field(default_factory=list)
    module: str = "another"

    def load(self) -> Attach:
        return self._attach

    def _attach(self, options: TraceOptions) -> Callable[[], None]:
        self.seen.append((options, vars(sys.modules[self.name]).get("complete")))
        if self.error is not None:
            raise self.error
        return lambda: self.seen.append("detached")


Hook = Callable[..., Callable[[], None]]


def set_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """Give a function that sets the hook, in a process where the frameworks above can be imported."""
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    undo = []

    def set_hook(*plugins: Plugin, faults: FaultReporter | None = None) -> Callable[[], None]:
        faults = faults or FaultReporter(raise_faults=True)
        undo.append(attach_on_import(OPTIONS, faults, plugins))
        return undo[-1]

    before = list(sys.meta_path)
    yield set_hook
    for each in undo:
        each()
    assert sys.meta_path == before
    for name in [name for name in sys.modules if name.split(".")[0] in ("frame", "tool", "zipped")]:
        del sys.modules[name]
