"""Start the worker or the agent: `python bootstrap.py worker|agent WORDS`.

Run as a file, because `python -m` searches the working directory first: a `random.py` that lies there
would be what our imports get, and what the user's script gets, which lies elsewhere.
"""

import os
import sys


def _main() -> None:
    program, *words = sys.argv[1:]
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]  # this file's folder, where modules have short names
    try:
        import traintrace  # noqa: F401 - is it found?
    except ModuleNotFoundError:  # the launcher found it in its working directory
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    if program == "agent":
        from traintrace.launch.agent import main
    else:
        from traintrace.launch.worker import main
    main(words)


if __name__ == "__main__":
    _main()
