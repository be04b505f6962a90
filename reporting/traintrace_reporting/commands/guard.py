"""`traintrace guard`: does a change make training slower? answered with a stated error rate."""

import sys
import time
from pathlib import Path
from typing import Any

import click

from traintrace.errors import UsageError
from traintrace_reporting.commands.printing import EXIT_CODES, print_json

_EPILOG = (
    "Exit codes: 0 PASS; 1 a run failed or a file cannot be used, and the message names it; 2 wrong usage; "
    "3 INCONCLUSIVE; 4 FAIL."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")


@click.group("guard", epilog=_EPILOG)
def guard() -> None:
    r"""Decide whether training became slower, with at most 1 % false alarms.

    \b
    Example: traintrace guard pairs --a train.py --b "train.py --new-kernel"
             traintrace guard history runs/tonight --baseline runs/main
             traintrace guard calibrate runs/same-* --output noise.json
    """


@guard.command("pairs", epilog=_EPILOG)
@click.option("--a", "a_text", required=True, metavar="CMD", help="What is run for the reference.")
@click.option("--b", "b_text", required=True, metavar="CMD", help="What is run for the candidate.")
@click.option("--a-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Start A here.")  # fmt: skip
@click.option("--b-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Start B here.")  # fmt: skip
@click.option("--run-dir", metavar="DIR|URL", help="Folder that holds runs (default: runs).")
@click.option(
    "--max-pairs",
    type=click.Choice(["4", "6", "9", "12"]),
    default="12",
    show_default=True,
    help="Stop after so many pairs at the latest.",
)
@_json
def pairs(
    a_text: str,
    b_text: str,
    a_dir: Path | None,
    b_dir: Path | None,
    run_dir: str | None,
    max_pairs: str,
    as_json: bool,
) -> None:
    r"""Run two commands in turn, A B, B A, ..., until it is decided whether B is slower.

    CMD is what follows `traintrace run`: its options, the script and the script's arguments, in one word of the
    shell. It is taken apart without a shell: no variables, no patterns. Each run has a process and a run folder of
    its own. FAIL: B is slower by 1 % or more beyond chance; PASS: 3 % or more can be excluded. Where other
    programs take the CPUs, a slowdown apart from waiting for one fails as well.

    \b
    Example: traintrace guard pairs --a train.py --b "train.py --new-kernel"
             traintrace guard pairs --a-dir ../main --a train.py --b train.py
    """
    from traintrace_reporting import guard_runs
    from traintrace_reporting.guarding import run_pairs
    from traintrace_reporting.settings import load_settings

    try:
        sides = {
            "A": guard_runs.side_of("A", a_text, a_dir),
            "B": guard_runs.side_of("B", b_text, b_dir),
        }
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    root = guard_runs.absolute(run_dir or load_settings().run_dir)
    begun = time.strftime("%Y%m%d-%H%M%S")
    _say(f"up to {2 * int(max_pairs)} runs, guard-{begun}-*, in {root}")
    outcome = run_pairs(
        lambda side, number: guard_runs.train(
            sides[side], root, f"guard-{begun}-{number:02d}{side.lower()}"
        ),
        int(max_pairs),
        _say,
    )
    notes = (*outcome.reasons[1:], *outcome.notes)
    _end(outcome, outcome.decision.decision, outcome.decision.headline, notes, as_json)


@guard.command("history", epilog=_EPILOG)
@click.argument("new", nargs=-1, required=True, metavar="NEW...")
@click.option(
    "--baseline",
    multiple=True,
    required=True,
    metavar="DIR|RUN",
    help="A folder of runs, or a run; can be given several times.",
)
@_json
def history(new: tuple[str, ...], baseline: tuple[str, ...], as_json: bool) -> None:
    r"""Judge new runs by at least 10 stored runs of the baseline, on the same machine.

    Runs of another workload, setup or machine, and those that did not complete, are left out of the baseline.

    \b
    Example: traintrace guard history runs/tonight --baseline runs/main
    """
    from traintrace_reporting.comparing import read_input
    from traintrace_reporting.guard_history import judge, read_baseline

    outcome = judge([read_input(place) for place in dict.fromkeys(new)], read_baseline(baseline))
    notes = [f"left out: {told}" for told in outcome.left_out]
    _end(outcome, outcome.decision, outcome.headline, notes, as_json)


@guard.command("calibrate", epilog=EXIT_CODES)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the noise model here; without it, it is printed.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the noise model as JSON, written or not."
)
def calibrate(runs: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    r"""Measure how much runs of the same code differ on this machine, from at least 6 of them.

    \b
    Example: traintrace guard calibrate runs/same-* --output noise.json
    """
    from traintrace_reporting.comparing import read_input
    from traintrace_reporting.noise_file import content_of, measure, write_noise

    model = measure([read_input(place) for place in runs])
    if output is not None:
        write_noise(output, model)
    if output is None or as_json:
        print_json(content_of(model))
    _say(f"runs of the same code differ by {100.0 * model.run_sd_log:.2g} % ({model.runs} runs)")
    if model.trending:
        _say(
            f"the machine was not at rest: {100.0 * model.trend_log:+.2g} % from one run to the next"
        )


def _end(outcome: Any, decision: str, headline: str, notes: Any, as_json: bool) -> None:
    """Print the outcome, and end with its exit code."""
    if as_json:
        print_json(outcome.content)
    else:
        click.echo(f"{decision}: {headline}")
    for note in notes:
        _say(note)
    sys.stdout.flush()
    sys.exit(outcome.exit_code)


def _say(line: str) -> None:
    click.echo(f"traintrace: {line}", err=True)
