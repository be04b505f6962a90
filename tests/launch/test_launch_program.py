"""A launched program cannot tell that it was launched: output, errors and exit code are those of `python`."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.launch.launchlab import PYTHON, Outcome, launcher, lay_out, run

STATE = """
    import sys
    main = sys.modules["__main__"]
    assert main.__dict__ is globals()
    print(sys.argv, sys.path[0], __name__)
    print({name: type(value) if name in ("__loader__", "__spec__", "__builtins__") else value
           for name, value in sorted(globals().items()) if name not in ("sys", "main")})
    print(getattr(__loader__, "path", None), __spec__ and (__spec__.name, __spec__.origin))
"""
RAISES = """
    def inner():
        raise ValueError("inner")
    def outer():
        try:
            inner()
        except ValueError as error:
            raise RuntimeError("outer") from error
    outer()
"""
SHUTDOWN = """
    import atexit, sys, threading, time
    class Last:
        def __del__(self):
            print("deleted")
    kept = Last()
    atexit.register(print, "atexit 1")
    atexit.register(lambda: print("atexit 2", threading.current_thread() is threading.main_thread()))
    def late():
        time.sleep(0.1)
        print("thread")
    threading.Thread(target=late).start()
    threading._register_atexit(print, "threading's own")
    print("main ends")
    raise KeyError("last")
"""
CHILDREN = """
    import multiprocessing, os, pickle, sys
    print("imported as", __name__, flush=True)
    class Batch:
        def __init__(self, size):
            self.size = size
    def work(batch):
        return batch.size, type(batch).__module__, "traintrace" in sys.modules and batch.size == 7
    if __name__ == "__main__":
        print(pickle.loads(pickle.dumps(Batch(3))).size, Batch.__module__)
        for method in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                print(method, pool.map(work, [Batch(6 if method == "fork" else 7)]))
"""
HOOK = """
    import sys, traceback
    def hook(kind, value, trace):
        print("hooked", kind, traceback.extract_tb(trace), value.__traceback__ is trace, sys.excepthook is hook)
    sys.excepthook = hook
    raise ValueError("mine")
"""
SOURCE = """
    import inspect, typing, warnings
    def loss(x: "Number") -> "Number":
        return x
    Number = int
    print(inspect.getsource(loss), typing.get_type_hints(loss))
    warnings.warn("of the script")
    try:
        1 / 0
    except ZeroDivisionError:
        import traceback
        print(traceback.format_exc(), [frame.function for frame in inspect.stack()][:1])
"""

PROGRAMS: Mapping[str, tuple[list[str], str]] = {
    "state": (["train.py", "--lr", "1", "-m", "--options"], STATE),
    "state of a path with dots": (["./sub/../train.py"], STATE),
    "state of a link": (["sub/link.py"], STATE),
    "state of a folder": (["app", "x"], STATE),
    "state of a zip file": (["app.zip"], STATE),
    "state of a module": (["-m", "app.part", "--lr", "1"], STATE),
    "state of a package": (["-m", "app", "-m"], STATE),
    "exception": (["train.py"], RAISES),
    "exception in a module": (["-m", "app.part"], RAISES),
    "order of the end": (["train.py"], SHUTDOWN),
    "hook of the user": (["train.py"], HOOK),
    "source, hints, warnings": (["train.py"], SOURCE),
    "exit 0": (["train.py"], "raise SystemExit"),
    "exit 3": (["train.py"], "import sys; sys.exit(3)"),
    "exit with a text": (["train.py"], "import sys; sys.exit('no data')"),
    "exit with a large number": (["train.py"], "import sys; sys.exit(256 + 5)"),
    "interrupt": (["train.py"], "import atexit; atexit.register(print, 'x')\nraise KeyboardInterrupt"),
    "killed": (["train.py"], "import os; os.kill(os.getpid(), 9)"),
    "aborted": (["train.py"], "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nos.abort()"),
    "out of the blue": (["train.py"], "import os; os._exit(77)"),
    "syntax error": (["train.py"], "x = = 1"),
    "syntax error in a module": (["-m", "app.part"], "x = = 1"),
    "no such file": (["nothing.py"], ""),
    "no such module": (["-m", "app.nothing"], ""),
    "standard input": (["train.py"], "import sys; print(input(), sys.stdin.read())"),
    "encoding": (["train.py"], "# -*- coding: latin-1 -*-\nprint(ascii('\u00e9'))"),
}  # fmt: skip


def both(folder: Path, words: list[str], text: str = "") -> tuple[Outcome, Outcome]:
    plain = run(folder, [PYTHON, *words], text)
    shutil.rmtree(folder / "app" / "__pycache__", ignore_errors=True)
    launched = run(folder, launcher(*words), text)
    error, _, ended = launched.error.rpartition("ended ")
    code = 128 - plain.code if plain.code < 0 else plain.code
    signal = -plain.code if plain.code < 0 else None
    assert ended == f"{code} {signal}\n"
    return plain._replace(code=code), launched._replace(error=error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_launched_program_does_what_it_does_by_itself(name: str, tmp_path: Path) -> None:
    words, source = PROGRAMS[name]
    lay_out(tmp_path, source)
    plain, launched = both(tmp_path, words, "one\ntwo\nthree\n")
    assert launched == plain


def test_children_of_each_kind_import_the_script_and_not_the_worker(tmp_path: Path) -> None:
    lay_out(tmp_path, CHILDREN)
    for words in (["train.py"], ["-m", "app.part"]):
        plain, launched = both(tmp_path, words)
        lines = launched.output.splitlines()
        assert lines.count("imported as __mp_main__") == 2
        assert "spawn [(7, '__mp_main__', False)]" in lines
        assert sorted(lines) == sorted(plain.output.splitlines())
        assert launched.error == ""


def test_flags_of_the_interpreter_are_handed_on(tmp_path: Path) -> None:
    flags = ["-O", "-u", "-B", "-W", "error::ImportWarning", "-X", "utf8", "-X", "dev"]
    lay_out(
        tmp_path,
        "import sys; print(sys.flags, sys.warnoptions, sys.stdout.write_through, __debug__)",
    )
    plain = run(tmp_path, [PYTHON, *flags, "train.py"])
    launched = run(tmp_path, launcher("train.py", interpreter=flags))
    assert "optimize=1" in plain.output
    assert launched.output == plain.output


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 has the flag -P")
def test_a_safe_path_stays_without_the_folder_of_the_script(tmp_path: Path) -> None:
    lay_out(tmp_path, "import sys; print(sys.path)")
    plain = run(tmp_path, [PYTHON, "-P", "train.py"])
    assert run(tmp_path, launcher("train.py", interpreter=["-P"])).output == plain.output


def test_files_of_the_working_directory_are_the_scripts_that_lie_there_and_nobody_elses(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path, "import random, sys, json; print(sys.path, random.__file__, json.__file__)")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("random", "types", "json", "plan", "site", "argparse", "torch"):
        (elsewhere / f"{name}.py").write_text("raise ImportError('of the working directory')\n")
    both_ways = both(elsewhere, ["../train.py"])
    assert both_ways[0] == both_ways[1]
    assert both_ways[0].code == 0
    torchrun = run(elsewhere, launcher("../train.py", torchrun=["--nproc-per-node", "2"]))
    assert (torchrun.code, torchrun.output) == (0, 2 * both_ways[0].output), torchrun.error
