"""What the worker adds to a program, and what becomes of the program if that fails."""

from pathlib import Path

import pytest

from tests.launch.launchlab import PYTHON, launcher, lay_out, run, variables
from traintrace.launch import LaunchPlan, Target, launch
from traintrace.launch.plan import WORKER


def test_no_module_of_a_framework_is_loaded_for_a_script_that_needs_none(tmp_path: Path) -> None:
    heavy = {"torch", "numpy", "lightning", "transformers", "fsspec", "traintrace_plain_torch"}
    lay_out(
        tmp_path,
        f"import sys; print(sorted({heavy} & set(sys.modules)), 'traintrace' in sys.modules)",
    )
    assert run(tmp_path, launcher("train.py")).output == "[] True\n"


def test_disabled_nothing_of_ours_is_in_the_process(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        """
        import os, sys
        print([name for name in sys.modules if name.startswith("traintrace")], sys.orig_argv[1:])
        print(os.environ.get("TRAINTRACE_RUN"), len(sys.meta_path))
        sys.exit(4)
        """,
    )
    plain = run(tmp_path, [PYTHON, "train.py", "a"])
    disabled = run(tmp_path, launcher("train.py", "a", disable=True, run="runs/x"))
    assert disabled[:2] == plain[:2]
    assert disabled.code == 4


def broken_plugin(folder: Path) -> Path:
    information = folder / "broken_plugin-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n", "utf-8"
    )
    (information / "entry_points.txt").write_text(
        "[traintrace.plugins]\ndecimal = broken_plugin:attach\nfractions = nowhere:attach\n"
        "module_that_fails = broken_plugin:attach\n",
        "utf-8",
    )
    (folder / "broken_plugin.py").write_text(
        "def attach(options):\n    raise OSError('broken')\n", "utf-8"
    )
    return folder


def test_plugins_that_fail_cost_one_warning_each_and_training_goes_on(tmp_path: Path) -> None:
    lay_out(
        tmp_path / "job", "import decimal, fractions, sys; print(decimal.Decimal(1)); sys.exit(3)"
    )
    path = variables(broken_plugin(tmp_path / "plugins"))
    ended = run(tmp_path / "job", launcher("train.py"), env=path)
    assert ended[:2] == (3, "1\n")
    assert ended.error.count("TraintraceWarning") == 2
    assert "OSError: broken" in ended.error
    assert "the tracing of fractions" in ended.error


@pytest.mark.parametrize("kind", ["ImportError", "RuntimeError", "SyntaxError"])
def test_an_import_that_fails_is_shown_as_without_us(kind: str, tmp_path: Path) -> None:
    lay_out(tmp_path, "import module_that_fails")
    text = (
        "x = = 1"
        if kind == "SyntaxError"
        else f"def load():\n    raise {kind}('no library')\nload()"
    )
    (tmp_path / "module_that_fails.py").write_text(text, "utf-8")
    path = variables(broken_plugin(tmp_path / "plugins"))
    plain = run(tmp_path, [PYTHON, "train.py"], env=path)
    launched = run(tmp_path, launcher("train.py"), env=path)
    assert kind in plain.error
    assert launched._replace(error=launched.error.removesuffix("ended 1 None\n")) == plain


def test_options_that_cannot_be_read_cost_one_warning(tmp_path: Path) -> None:
    lay_out(tmp_path, "import sys; print(sys.argv); sys.exit(3)")
    worker = [PYTHON, *WORKER, "--options", '{"levle": 1}', "train.py", "x"]
    ended = run(tmp_path, worker)
    assert ended[:2] == (3, "['train.py', 'x']\n")
    assert ended.error.count("TraintraceWarning") == 1
    assert "levle" in ended.error


def test_the_run_reaches_the_program_in_its_one_variable(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        """
        import os
        from traintrace.registry import REGISTRY
        print({k: v for k, v in os.environ.items() if k.startswith("TRAINTRACE")}, REGISTRY.launched)
        print([name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if name in os.environ])
        """,
    )
    ended = run(tmp_path, launcher("train.py", run="/somewhere/runs/x"))
    assert ended.output == "{'TRAINTRACE_RUN': '/somewhere/runs/x'} True\n[]\n"


def test_whoever_asks_learns_which_process_was_started(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # One that is another program by the time anybody looks.
    text = "import os; os.execlp('sh', 'sh', '-c', 'echo $$')"
    (tmp_path / "train.py").write_text(text, "utf-8")
    started: list[int] = []
    plan = LaunchPlan(target=Target("script", str(tmp_path / "train.py")))
    assert launch(plan, on_start=started.append).exit_code == 0
    assert started == [int(capfd.readouterr().out)]
