"""Run torchrun, for `bootstrap.py agent <torchrun's flags> bootstrap.py worker ...`.

Its workers learn whose children they are, so that none of them outlives it.
"""

from traintrace.launch.mainprogram import run_installed
from traintrace.launch.parentdeath import this_process
from traintrace.launch.plan import BOOTSTRAP, TORCHRUN


def main(words: list[str]) -> None:
    """Run torchrun with `words`."""
    run_installed(TORCHRUN, _with_parent(words))


def _with_parent(words: list[str]) -> list[str]:
    if BOOTSTRAP not in words:
        return words
    behind = words.index(BOOTSTRAP) + 2  # the file, and which program it starts
    return [*words[:behind], "--parent", this_process(), *words[behind:]]
