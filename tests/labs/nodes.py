"""Two machines for a job: network namespaces with an address each, or two launchers on this one where those are forbidden.

Each has a disk of its own (its folder for temporary files); they share a network and nothing else.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).parents[2]
_ADDRESSES: Final = ("10.77.0.1", "10.77.0.2")
_TIMEOUT_S: Final = 150.0


@dataclass(frozen=True)
class Machine:
    """One machine.

    Attributes:
        enter: Command that runs what follows it on this machine.
        address: Its address.
        interface: The network interface that has it.
        disk: Folder that only this machine writes to.
    """

    enter: tuple[str, ...]
    address: str
    interface: str
    disk: Path

    @property
    def leftovers(self) -> list[str]:
        """What of ours lies on its disk; torchrun leaves folders of its own."""
        return sorted(str(path) for path in self.disk.rglob("traintrace*"))


@contextmanager
def two_machines(folder: Path) -> Iterator[tuple[Machine, Machine]]:
    """Give two machines whose disks are below `folder`."""
    disks = [folder / f"disk-{number}" for number in range(2)]
    for disk in disks:
        disk.mkdir()
    with ExitStack() as stack:
        entered = stack.enter_context(_namespaces())
        if entered is None:
            print(
                "network namespaces are not permitted: two launchers on this machine",
                file=sys.stderr,
            )
            yield tuple(Machine((), "127.0.0.1", "lo", disk) for disk in disks)  # type: ignore[misc]  # two
        else:
            yield tuple(  # type: ignore[misc]  # two
                Machine(enter, address, "veth", disk)
                for enter, address, disk in zip(entered, _ADDRESSES, disks, strict=True)
            )


@contextmanager
def _namespaces() -> Iterator[list[tuple[str, ...]] | None]:
    """Make two network namespaces joined by a cable; None if that is not permitted here."""
    ip = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if ip is None or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        yield None
        return
    # A namespace lives as long as a process in it.
    holders = [subprocess.Popen(["unshare", "-n", "sleep", "600"]) for _ in _ADDRESSES]
    try:
        enter: list[tuple[str, ...]]
        enter = [("nsenter", "-t", str(holder.pid), "-n") for holder in holders]
        one, other = (str(holder.pid) for holder in holders)
        cable = f"link add veth netns {one} type veth peer name veth netns {other}"
        commands: list[Sequence[str]] = [(ip, *cable.split())]
        for prefix, address in zip(enter, _ADDRESSES, strict=True):
            commands.append((*prefix, ip, "addr", "add", f"{address}/24", "dev", "veth"))
            commands += [(*prefix, ip, "link", "set", name, "up") for name in ("veth", "lo")]
        yield enter if _have_left(holders) and all(map(_succeeds, commands)) else None
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def _have_left(holders: Sequence["subprocess.Popen[bytes]"]) -> bool:
    """Wait until the holders are in namespaces of their own."""
    home = os.readlink("/proc/self/ns/net")
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        if any(holder.poll() is not None for holder in holders):
            return False
        try:
            if all(os.readlink(f"/proc/{holder.pid}/ns/net") != home for holder in holders):
                return True
        except OSError:
            return False
        time.sleep(0.01)
    return False


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass
class Job:
    """One job on two machines, a launcher of `ranks` processes on each."""

    launchers: "list[subprocess.Popen[str]]"

    def wait(self, *numbers: int) -> list[tuple[int, str]]:
        """Give exit code and standard error of the launchers."""
        ended = []
        for number in numbers or range(len(self.launchers)):
            _, error = self.launchers[number].communicate(timeout=_TIMEOUT_S)
            ended.append((self.launchers[number].returncode, error))
        return ended

    def lose(self, number: int) -> None:
        """Lose a machine: all its processes at once."""
        launcher = psutil.Process(self.launchers[number].pid)
        for process in [launcher, *launcher.children(recursive=True)]:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue

    def end(self) -> None:
        """Leave no process behind."""
        for number, launcher in enumerate(self.launchers):
            if launcher.poll() is None:
                self.lose(number)
            launcher.communicate()


@contextmanager
def job(
    machines: Sequence[Machine],
    script: Path,
    *arguments: object,
    ranks: int = 2,
    launcher: Sequence[str] = ("-m", "torch.distributed.run"),
) -> Iterator[Job]:
    """Start `script` on all machines; whatever happens, no process is left behind."""
    port = _free_port()
    launchers = []
    for number, machine in enumerate(machines):
        command = [*machine.enter, sys.executable, *launcher]
        command += ["--nnodes", str(len(machines)), "--node-rank", str(number)]
        command += ["--master-addr", machines[0].address, "--master-port", str(port)]
        command += ["--nproc-per-node", str(ranks), str(script), *map(str, arguments)]
        launchers.append(
            subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd=machine.disk,
                env=os.environ | _settings(machine),
            )
        )
    started = Job(launchers)
    try:
        yield started
    finally:
        started.end()


def _settings(machine: Machine) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": path,
        "TMPDIR": str(machine.disk),
        "GLOO_SOCKET_IFNAME": machine.interface,
        "TP_SOCKET_IFNAME": machine.interface,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
