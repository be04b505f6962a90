"""The options of `traintrace compare` for traces of a profiler, and what they show."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from traintrace_reporting.commands.printing import print_json, print_page


@dataclass(frozen=True, slots=True)
class TracesOfSides:
    """The trace files of both sides."""

    a: tuple[Path, ...]
    b: tuple[Path, ...]

    def show(self, *, alone: bool, as_json: bool) -> bool:
        """Print the comparison of the traces; say whether that was all that was asked for.

        Raises:
            RunReadError: A trace cannot be read.
        """
        if as_json and not alone:
            raise click.UsageError("--json prints one comparison: that of runs or that of traces")
        from traintrace_reporting.terminal import WIDEST, console_for
        from traintrace_reporting.traces.comparison_page import compare_files, page

        content = compare_files(self.a, self.b)
        if as_json:
            print_json(content)
        else:
            print_page(page(content, min(int(console_for(sys.stdout).width), WIDEST)))
            if not alone:
                click.echo()
        return alone


def traces_of_sides(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take `--trace-a` and `--trace-b`; they arrive as `traces`, None if neither is given."""

    @click.option(
        "--trace-a",
        "trace_a",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE|FOLDER",
        help="A torch.profiler trace of the reference, once for each rank, or a folder of them.",
    )
    @click.option(
        "--trace-b",
        "trace_b",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE|FOLDER",
        help="The same of the candidate: kernels by name, exposed communication, time per step.",
    )
    @wraps(command)
    def take(
        *args: Any, trace_a: tuple[Path, ...], trace_b: tuple[Path, ...], **options: Any
    ) -> Any:
        if bool(trace_a) != bool(trace_b):
            raise click.UsageError("give --trace-a and --trace-b, or neither")
        traces = TracesOfSides(trace_a, trace_b) if trace_a else None
        return command(*args, traces=traces, **options)

    return take
