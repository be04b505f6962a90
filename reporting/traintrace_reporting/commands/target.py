"""What is run: a script or a module, and the arguments that belong to it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from traintrace.launch.plan import Target


def target_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take SCRIPT or `-m MODULE`, and all that follows; it arrives as `target`."""

    @click.option("-m", "is_module", is_flag=True, help="Run a module, as `python -m` does.")
    @click.argument(
        "words", nargs=-1, required=True, metavar="SCRIPT|MODULE [ARGS]...", type=click.UNPROCESSED
    )
    @wraps(command)
    def take(*args: Any, is_module: bool, words: tuple[str, ...], **options: Any) -> Any:
        name, *arguments = words
        target = Target("module" if is_module else "script", name, tuple(arguments))
        return command(*args, target=target, **options)

    return take


def as_flag(message: str) -> str:
    """Call an option as the command line does; what the file says was checked when it was read."""
    for option, flag in (
        ("interval_s=", "--interval "),
        ("max_steps=", "--max-steps "),
        ("retention_steps=", "--retention "),
        ("publish_interval_s=", "--publish-interval "),
        ("wait_for_ranks_s=", "--wait-for-ranks "),
        ("flops_per_step=", "--flops-per-step "),
        ("peak_tflops=", "--peak-tflops "),
        ("profile_steps=", "--profile-steps "),
        ("run_dir=", "--run-dir "),
        ("name=", "--run-name "),
    ):
        if message.startswith(option):
            return flag + message.removeprefix(option)
    return message
