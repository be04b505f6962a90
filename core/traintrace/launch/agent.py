"""Run torchrun: `python -m traintrace.launch.agent <torchrun's flags> -m traintrace.launch.worker ...`.

Its workers learn whose children they are, so that none of them outlives it.
"""

import sys

from traintrace.launch.mainprogram import run_module
from traintrace.launch.parentdeath import this_process
from traintrace.launch.plan import TORCHRUN, WORKER


def _with_parent(words: list[str]) -> list[str]:
    if WORKER not in words:
        return words
    behind = words.index(WORKER) + 1
    return [*words[:behind], "--parent", this_process(), *words[behind:]]


if __name__ == "__main__":
    run_module(TORCHRUN, _with_parent(sys.argv[1:]))
