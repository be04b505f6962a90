"""One class for both of Lightning's names, neither of which is required or loaded for its sake."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from traintrace.options import TraceOptions
from traintrace_lightning import TraceCallback
from traintrace_lightning.attach import attach


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_callback_is_one_for_each_loaded_name() -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        pl = import_module(name)
        callback: Any = TraceCallback()
        assert isinstance(callback, pl.Callback)
        trainer = pl.Trainer(callbacks=callback, logger=False, accelerator="cpu")
        assert callback in trainer.callbacks
    assert callback.state_key == "TraceCallback"
    assert callback.state_dict() == {}


def test_importing_loads_no_lightning_and_nothing_of_the_report() -> None:
    out = _python(
        "import sys, traintrace_lightning.attach as a\n"
        "print('torch' in sys.modules)\n"
        "from traintrace_lightning import TraceCallback\n"
        "print(*[m for m in ('lightning', 'pytorch_lightning') if m in sys.modules])\n"
    )
    assert out.split() == ["False"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("lightning.pytorch", "pytorch_lightning"), ("pytorch_lightning", "lightning.pytorch")],
)
def test_the_callback_comes_with_nothing_heavy_and_not_with_the_other_name(
    name: str, other: str
) -> None:
    out = _python(
        f"import sys, {name} as pl\n"
        "before = set(sys.modules)\n"
        "from traintrace_lightning import TraceCallback\n"
        "trainer = pl.Trainer(callbacks=TraceCallback(), logger=False, accelerator='cpu')\n"
        "print(*{m.partition('.')[0] for m in set(sys.modules) - before})\n"
        f"print({other!r} in sys.modules)\n"
    )
    loaded, other_is_loaded = out.splitlines()[-2:]
    heavy = {"traintrace_reporting", "traintrace_analysis", "rich", "numpy", "click"}
    assert heavy.isdisjoint(loaded.split())
    assert other_is_loaded == "False"


def test_without_lightning_the_error_says_what_to_install() -> None:
    out = _python(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('lightning', 'pytorch_lightning'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "try:\n"
        "    from traintrace_lightning import TraceCallback\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert "pip install lightning" in out


def test_attach_gives_every_trainer_a_callback_until_it_is_undone(both: Any) -> None:
    detach = attach(TraceOptions(run_dir=both.folder / "runs", print_report=False))
    try:
        trainer = both.trainer()
        own = both.callback()
        with_own = both.trainer(own)
    finally:
        detach()
    traced = [each for each in trainer.callbacks if isinstance(each, TraceCallback)]
    assert len(traced) == 1
    assert [each for each in with_own.callbacks if isinstance(each, TraceCallback)] == [own]
    assert not any(isinstance(each, TraceCallback) for each in both.trainer().callbacks)
    trainer.fit(both.Model(), both.loader(2, 0))
    assert traced[0].run_folder is not None
