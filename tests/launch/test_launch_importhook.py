"""Plugins attach right after their module's import, and the import cannot tell."""

import importlib
import importlib.resources
import importlib.util
import pickle
import pkgutil
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tests.launch.hooklab import OPTIONS, Hook, Plugin, set_hooks
from traintrace.faults import FaultReporter


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    yield from set_hooks(tmp_path, monkeypatch)


def test_a_plugin_attaches_once_its_module_is_complete(hook: Hook) -> None:
    plugin = Plugin("tool")
    undo = hook(plugin)
    assert not plugin.seen
    importlib.import_module("tool")
    assert plugin.seen == [(OPTIONS, True)]
    importlib.reload(sys.modules["tool"])
    assert len(plugin.seen) == 1
    undo()
    assert plugin.seen[1:] == ["detached"]


def test_a_submodule_that_is_loaded_lazily_attaches_when_it_is_asked_for(hook: Hook) -> None:
    plugin = Plugin("frame.trainer")
    hook(plugin)
    frame: Any = importlib.import_module("frame")
    assert not plugin.seen
    assert frame.trainer.Trainer is sys.modules["frame.trainer"].Trainer
    assert plugin.seen == [(OPTIONS, True)]


def test_several_plugins_may_wait_for_one_module_and_one_plugin_for_several(hook: Hook) -> None:
    plugins = Plugin("tool"), Plugin("tool"), Plugin("frame.other"), Plugin("frame.trainer")
    hook(*plugins)
    importlib.import_module("tool")
    importlib.import_module("frame.trainer")
    assert [len(plugin.seen) for plugin in plugins] == [1, 1, 1, 1]


def test_what_is_imported_already_is_attached_at_once(hook: Hook) -> None:
    importlib.import_module("tool")
    plugin = Plugin("tool")
    hook(plugin)
    assert plugin.seen == [(OPTIONS, True)]


def test_looking_for_a_module_is_not_importing_it(hook: Hook) -> None:
    plugin = Plugin("tool")
    hook(plugin)
    for _ in range(2):
        spec = importlib.util.find_spec("tool")
        assert spec is not None
        assert type(spec.loader) is SourceFileLoader
    assert not plugin.seen
    importlib.import_module("tool")
    assert len(plugin.seen) == 1


def test_the_loader_is_the_real_one_and_as_it_was(hook: Hook) -> None:
    hook(Plugin("frame"), Plugin("frame.trainer"))
    frame, trainer = importlib.import_module("frame"), importlib.import_module("frame.trainer")
    for module in (frame, trainer):
        assert type(module.__loader__) is SourceFileLoader
        assert module.__spec__ is not None
        assert module.__spec__.loader is module.__loader__
        assert "exec_module" not in vars(module.__loader__)
    assert importlib.resources.files("frame").joinpath("data.txt").read_text("utf-8") == "rows"
    assert {found.name for found in pkgutil.iter_modules(frame.__path__)} == {
        "trainer",
        "other",
        "fails",
    }
    assert pickle.loads(pickle.dumps(trainer.Trainer)) is trainer.Trainer
    assert importlib.reload(trainer) is trainer


def test_an_import_that_fails_attaches_nothing_and_may_be_tried_again(
    hook: Hook, tmp_path: Path
) -> None:
    plugin = Plugin("frame.fails")
    hook(plugin)
    for _ in range(2):
        with pytest.raises(ImportError, match="not today"):
            importlib.import_module("frame.fails")
    assert not plugin.seen
    (tmp_path / "frame" / "fails.py").write_text("complete = True  # now it works\n", "utf-8")
    importlib.invalidate_caches()
    importlib.import_module("frame.fails")
    assert plugin.seen == [(OPTIONS, True)]


def test_a_module_that_is_missing_stays_missing(hook: Hook) -> None:
    hook(Plugin("no_such_module_anywhere"))
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        importlib.import_module("no_such_module_anywhere")


def test_a_plugin_that_fails_is_named_once_and_forgotten(hook: Hook) -> None:
    faults = FaultReporter()
    broken, whole = Plugin("tool", error=OSError("broken")), Plugin("tool")
    with pytest.warns(UserWarning, match="OSError: broken.*the tracing of tool"):
        undo = hook(broken, whole, faults=faults)
        importlib.import_module("tool")
        importlib.reload(sys.modules["tool"])
    assert (len(broken.seen), len(whole.seen), len(faults.messages)) == (1, 1, 1)
    undo()
    assert "detached" not in broken.seen


def test_a_finder_that_comes_first_only_delays_the_plugin(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    class First:
        @staticmethod
        def find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
            return PathFinder.find_spec(name, path, target) if name == "tool" else None

    plugin = Plugin("tool")
    hook(plugin)
    monkeypatch.setattr(sys, "meta_path", [First, *sys.meta_path])
    importlib.import_module("tool")
    assert not plugin.seen
    importlib.import_module("frame")
    assert plugin.seen == [(OPTIONS, True)]
    monkeypatch.undo()


def test_a_loader_that_many_modules_share_is_told_apart(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as archive:
        archive.writestr(
            "zipped/__init__.py", "import zipped.inner, zipped.outer\ncomplete = True\n"
        )
        archive.writestr("zipped/inner.py", "complete = True\n")
        archive.writestr("zipped/outer.py", "complete = True\n")
    monkeypatch.syspath_prepend(str(tmp_path / "library.zip"))
    plugins = Plugin("zipped"), Plugin("zipped.inner")
    hook(*plugins)
    importlib.util.find_spec("zipped")
    zipped = importlib.import_module("zipped")
    assert [plugin.seen for plugin in plugins] == [[(OPTIONS, True)], [(OPTIONS, True)]]
    assert zipped.__spec__ is not None
    assert zipped.__spec__.loader is zipped.__loader__


def test_a_module_that_another_thread_still_imports_is_waited_for(
    hook: Hook, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.005)\n"
    (tmp_path / "tool.py").write_text(f"{wait}complete = True\n", "utf-8")
    plugin = Plugin("tool")
    importer = threading.Thread(target=importlib.import_module, args=("tool",))
    importer.start()
    while "tool" not in sys.modules:
        time.sleep(0.005)
    hook(plugin)
    importlib.import_module("frame")
    assert not plugin.seen
    gate.touch()
    importer.join()
    importlib.import_module("frame.other")
    assert plugin.seen == [(OPTIONS, True)]
