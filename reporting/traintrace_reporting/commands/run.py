"""`traintrace run`: train as always, traced, and print the report."""

import sys
from typing import Any

import click

from traintrace.errors import UsageError
from traintrace.launch.plan import Target
from traintrace_reporting.commands.amounts import Operations, Peak
from traintrace_reporting.commands.target import as_flag, target_arguments
from traintrace_reporting.commands.torchrun_flags import given_flags, torchrun_options
from traintrace_reporting.settings import FILE_NAME, load_settings, with_flags
from traintrace_reporting.settings_keys import KEYS

_EPILOG = (
    "Exit codes: training's own (128 + n if signal n ended it), whatever happens to the tracing; "
    "1 the settings file cannot be used, and the message names it; 2 wrong usage, or the run name is taken. "
    "With 1 and 2 of ours nothing was started.\n\n"
    f"Settings: options, else {FILE_NAME} in the working directory or the nearest folder around it, else "
    f"defaults. Its keys: {', '.join(key.name for key in KEYS)} (docs/settings.md).\n\n"
    "Options stand before SCRIPT; all that follows belongs to the script. Any option of torchrun starts the "
    "ranks through torchrun; without one there is one process, without torchrun's environment."
)


@click.command(
    context_settings={"allow_interspersed_args": False}, epilog=_EPILOG, no_args_is_help=False
)
@target_arguments
@click.option(
    "--run-name",
    metavar="NAME",
    help="Name of the run, which must be new (default: the script's name and the time).",
)
@click.option("--run-dir", metavar="DIR|URL", help="Folder that holds runs (default: runs).")
@click.option(
    "--level",
    type=click.Choice(["auto", "full", "host", "step"]),
    help="What is timed: phases on host and device, on the host alone, or whole steps.",
)
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="Record so many steps.")
@click.option(
    "--warmup-steps", type=click.IntRange(0), metavar="N", help="So many first steps are warm-up."
)
@click.option(
    "--interval", type=float, metavar="SECONDS", help="Time between readings of the machine."
)
@click.option(
    "--retention", type=int, metavar="N", help="So many of the latest steps keep a row each."
)
@click.option(
    "--publish-interval",
    type=float,
    metavar="SECONDS",
    help="Time between two transfers of new rows to a URL or network file system.",
)
@click.option(
    "--wait-for-ranks",
    type=float,
    metavar="SECONDS",
    help="How long the report waits for ranks and nodes that have not ended.",
)
@click.option(
    "--flops-per-step",
    type=Operations(),
    metavar="N|count",
    help="Operations of one step on a rank, for MFU; `count` counts those of a few steps.",
)
@click.option(
    "--peak-tflops",
    type=Peak(),
    metavar="N",
    help="What a device can do, in 1e12 operations a second (default: by the device's name).",
)
@click.option(
    "--profile-steps",
    type=(int, int),
    metavar="FIRST LAST",
    help="The framework's profiler traces these steps, for the report's section on communication.",
)
@click.option("--disable", is_flag=True, help="Install nothing and record nothing; train only.")
@torchrun_options
def run(
    target: Target,
    run_name: str | None,
    run_dir: str | None,
    level: str | None,
    max_steps: int | None,
    warmup_steps: int | None,
    interval: float | None,
    retention: int | None,
    publish_interval: float | None,
    wait_for_ranks: float | None,
    flops_per_step: float | str | None,
    peak_tflops: float | None,
    profile_steps: tuple[int, int] | None,
    disable: bool,
    **torchrun: Any,
) -> None:
    r"""Run a training script and trace it, without a change to it.

    Lightning's and Hugging Face's Trainers are traced as they are, and so is a loop of one's own; a callback
    or trace that the script already has goes first. The report goes to standard error.

    \b
    Example: traintrace run train.py --lr 0.1
             traintrace run --nproc-per-node 4 -m my_package.train --epochs 3
    """
    from traintrace_reporting.launch_request import Launch
    from traintrace_reporting.launching import launch

    settings = with_flags(
        load_settings(),
        run_dir=run_dir,
        level=level,
        max_steps=max_steps,
        warmup_steps=warmup_steps,
        interval=interval,
        history_retention=retention,
        publish_interval=publish_interval,
        wait_for_ranks=wait_for_ranks,
        flops_per_step=flops_per_step,
        peak_tflops=peak_tflops,
        profile_steps=profile_steps,
        enabled=False if disable else None,
    )
    try:
        options = settings.options(run_name)
        code = launch(Launch(target, given_flags(torchrun), settings, options))
    except UsageError as error:
        raise click.UsageError(as_flag(str(error))) from error
    sys.exit(code)
