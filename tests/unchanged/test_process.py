"""A process that traced is left as one that did not: after a whole training and after a failed one."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

STATES: Final = (
    *("threads", "native threads", "open files", "signal handlers", "interpreter hooks"),
    *("garbage collector", "warning filters", "logging", "environment variables"),
    *("working directory", "random states", "torch settings", "import system"),
)
OURS: Final = "runs/"
# What a log says about speed differs between any two trainings.
SPEED: Final = re.compile(rb"""(['"]\w+_(?:runtime|per_second)['"]: )'?[\d.e+-]+'?""")


def test_all_of_the_state_is_compared(completed: Any) -> None:
    assert completed.traced.seen["state"].keys() == set(STATES)


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_the_process_is_the_same(ended: Any, name: str) -> None:
    untraced, traced = (run.seen["state"][name] for run in (ended.untraced, ended.traced))
    assert traced == untraced


def test_functions_and_classes_are_those_of_before(ended: Any) -> None:
    """Frameworks replace some of their own in a training; tracing leaves just these replaced.

    Looked at: each callable of every loaded module and of every class in it, and each list of hooks.
    """
    untraced, traced = (run.seen["patches"] for run in (ended.untraced, ended.traced))
    assert traced == untraced


def test_no_module_or_class_keeps_a_function_of_ours(ended: Any) -> None:
    assert ended.traced.seen["ours in modules"] == []


def test_no_warning_is_added_moved_or_lost(ended: Any) -> None:
    """Category, message and the line that is blamed, in order."""
    untraced, traced = (run.seen["warnings"] for run in (ended.untraced, ended.traced))
    assert traced == untraced


def test_functions_registered_for_the_exit_are_the_same(ended: Any) -> None:
    untraced, traced = (run.seen["functions at exit"] for run in (ended.untraced, ended.traced))
    assert traced == untraced


def test_nothing_else_is_done_to_the_machine(ended: Any) -> None:
    """No process, signal, connection, library or variable, and no file outside the working directory."""
    untraced, traced = (run.seen["deeds"] for run in (ended.untraced, ended.traced))
    assert traced == untraced


def test_files_are_written_in_the_run_folder_only(ended: Any) -> None:
    untraced, traced = (_files(run.folder / "work") for run in (ended.untraced, ended.traced))
    ours = {name for name in traced if name.startswith(OURS)}
    assert ours
    assert traced.keys() - ours == untraced.keys()
    assert [name for name in untraced if traced[name] != untraced[name]] == []


def test_standard_output_is_the_same(ended: Any) -> None:
    """Our report goes to standard error."""
    untraced, traced = (
        SPEED.sub(rb"\1", (run.folder / "stdout").read_bytes())
        for run in (ended.untraced, ended.traced)
    )
    assert traced == untraced


def test_standard_error_names_us_if_and_only_if_we_traced(ended: Any) -> None:
    assert b"traintrace" not in (ended.untraced.folder / "stderr").read_bytes()
    assert b"traintrace" in (ended.traced.folder / "stderr").read_bytes()


def _files(folder: Path) -> dict[str, bytes]:
    """Give the content of every file below `folder`, by its path; folders end in a slash."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_folder = path.is_dir()
        found[f"{name}/" if is_folder else name] = (
            b"" if is_folder else SPEED.sub(rb"\1", path.read_bytes())
        )
    return found
