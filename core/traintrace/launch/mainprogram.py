"""Run a program in the real `__main__`, the way `python PROGRAM` and `python -m PROGRAM` do."""

import importlib.machinery
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, NoReturn

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def run_script(path: str, arguments: list[str]) -> None:
    """Run the file (or folder, or zip file with a `__main__`) at `path` as `python path` would.

    What it raises goes on to the interpreter, which prints it without this module's frames.
    """
    sys.argv = [path, *arguments]
    if pkgutil.get_importer(path) is not None:  # something that holds modules
        _lead_the_path(os.path.join(os.getcwd(), path))
        _fresh_main()
        _run(lambda: _run_module_as_main("__main__", alter_argv=False))
        return
    # The interpreter resolves links for the search path and for nothing else.
    _lead_the_path(os.path.dirname(os.path.realpath(path)))
    file = os.path.join(os.getcwd(), path)
    main = _fresh_main()
    main |= {
        "__file__": file,
        "__cached__": None,
        "__spec__": None,
        "__package__": None,
        "__loader__": importlib.machinery.SourceFileLoader("__main__", file),
    }
    _run(lambda: exec(_code_of(file), main))


def run_module(name: str, arguments: list[str]) -> None:
    """Run the module `name` as `python -m name` would; see `run_script`."""
    _lead_the_path(os.getcwd())
    run_installed(name, arguments)


def run_installed(name: str, arguments: list[str]) -> None:
    """Run the module `name`, which is not looked for in the working directory."""
    sys.argv = ["-m", *arguments]
    _fresh_main()
    _run(lambda: _run_module_as_main(name, alter_argv=True))


def _run_module_as_main(name: str, *, alter_argv: bool) -> None:
    # Private, but the very function that `python -m` calls, in every version of Python 3.
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _fresh_main() -> dict[str, Any]:
    main = sys.modules["__main__"].__dict__
    kept: dict[str, Any] = {
        name: main[name] for name in ("__name__", "__builtins__") if name in main
    }
    if "__annotations__" in main:  # versions differ in whether a module starts with them
        kept["__annotations__"] = {}
    main.clear()
    main.update(kept, __doc__=None)
    return main


def _lead_the_path(folder: str) -> None:
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, folder)


def _code_of(file: str) -> CodeType:
    try:
        if file.endswith(".pyc"):
            loader = importlib.machinery.SourcelessFileLoader("__main__", file)
            code = loader.get_code("__main__")
            assert code is not None
            return code
        with open(file, "rb") as source:
            text = source.read()
    except OSError as error:
        _cannot_open(file, error)
    return compile(text, file, "exec", dont_inherit=True)


def _cannot_open(file: str, error: OSError) -> NoReturn:
    reason = f"[Errno {error.errno}] {error.strerror}"
    print(f"{sys.executable}: can't open file {file!r}: {reason}", file=sys.stderr)
    raise SystemExit(2)


def _run(program: Callable[[], None]) -> None:
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:
        _show_without_our_frames(error)
        raise


def _show_without_our_frames(error: BaseException) -> None:
    """Have the interpreter's last act, `sys.excepthook`, see the user's part of the traceback.

    The exception still passes through our frames, so that the interpreter alone decides on exit code,
    interrupts, order of shutdown: only what is shown is cut.
    """
    users: TracebackType | None = error.__traceback__
    while users is not None and users.tb_frame.f_code.co_filename == __file__:
        users = users.tb_next
    hook: _Hook = sys.excepthook

    def show(kind: type[BaseException], value: BaseException, whole: TracebackType | None) -> None:
        sys.excepthook = hook
        cut = users if value is error else whole
        hook(kind, value.with_traceback(cut), cut)

    sys.excepthook = show
