"""Run a program traced, for `bootstrap.py worker --options JSON [-m] TARGET [args]`.

`traintrace run` starts this; the program runs as if it had been started itself.
"""

import sys
from dataclasses import dataclass
from typing import NoReturn

from traintrace.faults import FaultReporter
from traintrace.launch.importhook import attach_on_import
from traintrace.launch.mainprogram import run_module, run_script
from traintrace.launch.parentdeath import die_with, die_with_launcher
from traintrace.options import TraceOptions
from traintrace.registry import REGISTRY


@dataclass(frozen=True, slots=True)
class _Call:
    """What the command line says.

    Attributes:
        parent: torchrun's process; empty where the launcher is the parent itself.
        launcher: The launcher, where a rank has started this process; else empty.
    """

    options: str
    parent: str
    launcher: str
    module: bool
    target: str
    arguments: list[str]


def main(words: list[str]) -> None:
    """Run the program that `words` name."""
    call = _parse(words)
    if call.parent:
        die_with(call.parent)
    if call.launcher:
        die_with_launcher(call.launcher)
    REGISTRY.launched = True
    faults = FaultReporter()
    with faults.guard("the whole trace"):
        options = TraceOptions.from_json(call.options)
        if options.enabled:
            attach_on_import(options, faults)
    (run_module if call.module else run_script)(call.target, call.arguments)


def _parse(words: list[str]) -> _Call:
    # By hand: the program's own arguments may look like anything.
    given = {"--options": "{}", "--parent": "", "--launcher": ""}
    rest = list(words)
    while rest and rest[0] in given:
        if len(rest) < 2:
            _refuse(f"{rest[0]} needs a value")
        given[rest[0]] = rest[1]
        del rest[:2]
    module = rest[:1] == ["-m"]
    rest = rest[1:] if module else rest
    if not rest:
        _refuse("no program is named")
    return _Call(
        options=given["--options"],
        parent=given["--parent"],
        launcher=given["--launcher"],
        module=module,
        target=rest[0],
        arguments=rest[1:],
    )


def _refuse(reason: str) -> NoReturn:
    print(f"traintrace.launch.worker: {reason}", file=sys.stderr)
    raise SystemExit(2)
