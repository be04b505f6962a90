"""Other tracers on the same loop, each in an environment of its own, in alternation with ours.

A tool that patches torch cannot be switched off cleanly inside one process, so every tool has two worker
processes, one traced and one plain, which alternate block by block; several pairs of processes average
out what differs between processes. Ours is measured in the same way here, so that figures compare.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from traintrace.recording.pairing import Cost, cost_of, paired_differences

LOOP = Path(__file__).with_name("loop.py")
PEERS = {"traceml-ai": "traceml-ai==0.5.0", "pytscope-auto": "pytscope==0.2.1"}
TORCH = "torch==2.13.0"
PROCESS_PAIRS = 4
BLOCKS_PER_PROCESS = 12


class Worker:
    """A process that runs a block when it is asked to."""

    def __init__(self, python: str, tool: str) -> None:
        self._tool = tool
        self._folder = tempfile.TemporaryDirectory()  # some tools write where they are started
        self._process = subprocess.Popen(
            [python, str(LOOP.resolve()), "--tool", tool],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._folder.name,
        )

    def block(self) -> float:
        """Run one block; give its median CPU time per step [us].

        Raises:
            RuntimeError: The worker died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("block\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker of {self._tool} ended with code {self._process.wait()}")
        return float(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._folder.cleanup()


def measure_peers(environments: Path, chance: random.Random) -> dict[str, Cost]:
    """Measure every peer, and our automatic tracing beside them; make environments that are missing."""
    pythons = {name: _environment(environments / name, what) for name, what in PEERS.items()}
    pythons = {name: str(Path(python).absolute()) for name, python in pythons.items()}
    pythons["traintrace-automatic"] = sys.executable
    differences: dict[str, list[float]] = {name: [] for name in pythons}
    with _traceml_server(pythons["traceml-ai"]):
        for _ in range(PROCESS_PAIRS):
            for name, python in chance.sample(sorted(pythons.items()), len(pythons)):
                traced, plain = Worker(python, name), Worker(python, "none")
                for worker in (traced, plain) * 2:
                    worker.block()
                differences[name] += paired_differences(
                    traced.block, plain.block, BLOCKS_PER_PROCESS, chance
                )
                traced.close()
                plain.close()
    return {name: cost_of(values, chance) for name, values in differences.items()}


def _environment(folder: Path, requirement: str) -> str:
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", TORCH, "numpy", requirement]
        subprocess.run(install, check=True)
    return str(python)


@contextlib.contextmanager
def _traceml_server(python: str) -> Iterator[None]:
    """traceml-ai records nothing without its server; it is told where none of its files matter."""
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [str(Path(python).with_name("traceml")), "serve"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(8)
        try:
            yield
        finally:
            server.terminate()
            server.wait()
