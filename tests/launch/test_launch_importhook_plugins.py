"""When a plugin is attached: not half imported, not in a loader's worker, and not if it is broken."""

import importlib
import multiprocessing.process
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.launch.hooklab import Hook, Plugin, set_hooks
from traintrace import TraceOptions, TraintraceWarning
from traintrace.faults import FaultReporter


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    yield from set_hooks(tmp_path, monkeypatch)


def test_a_plugin_that_is_half_imported_is_attached_once_it_is_complete(
    hook: Hook, tmp_path: Path
) -> None:
    files = {
        "frame/plugin/__init__.py": "import tool\nfrom frame.plugin import late\n",
        "frame/plugin/late.py": "complete = True\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    seen = []

    class Imported(Plugin):
        def _attach(self, options: TraceOptions) -> Callable[[], None]:
            seen.append("frame.plugin.late" in sys.modules)
            return super()._attach(options)

    # Nothing else is imported afterwards that could be the occasion.
    plugin, other = Imported("tool", module="frame.plugin.late"), Plugin("tool")
    hook(plugin, other)
    importlib.import_module("frame.plugin")
    assert (seen, len(other.seen)) == ([True], 1)


def test_a_plugin_without_a_module_is_left_out_and_named(hook: Hook) -> None:
    broken, plugin = EntryPoint("tool", "nothing here!", "traintrace.plugins"), Plugin("tool")
    with pytest.warns(TraintraceWarning, match="the tracing of tool"):
        hook(broken, plugin, faults=FaultReporter())
    importlib.import_module("tool")
    assert len(plugin.seen) == 1


def test_nothing_is_attached_in_a_loaders_worker(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin("tool")
    hook(plugin)
    with monkeypatch.context() as worker:
        worker.setitem(multiprocessing.process.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
        importlib.import_module("tool")
        assert not plugin.seen
    importlib.import_module("frame.other")
    assert len(plugin.seen) == 1
