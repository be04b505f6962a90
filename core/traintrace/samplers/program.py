"""Read a program from outside: its whole tree of processes, the node, and the GPUs that it may use."""

import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Final

from traintrace.ports import UsedDevice
from traintrace.readings import Reading
from traintrace.samplers.devices import DeviceReader
from traintrace.samplers.process import ProcessReader
from traintrace.samplers.processtree import Processes, find_processes
from traintrace.samplers.procfs import names_in
from traintrace.samplers.system import SystemReader

_GPU: Final = re.compile(r"nvidia\d+")


class ProgramReader:
    """Takes readings of a program that runs in a process of its own; nothing is put into it.

    All of its ranks are in one reading, since all were started below it.
    """

    def __init__(
        self,
        pid: int,
        moment: Callable[[], int],
        unmeasured: MutableMapping[str, str],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Prepare.

        Args:
            pid: The program's first process, which this process has started and has not yet waited for.
            moment: The clock of the readings [ns].
            unmeasured: Gets the reason where a signal cannot be measured.
            environment: The program's own, for the GPUs that it may use.
        """
        processes = find_processes(None, pid)
        self._process = ProcessReader(
            pid, processes, moment, own_cpu_ns=lambda: _cpu_ns(processes), pid=pid
        )
        self._system = SystemReader(moment)
        used = visible_gpus(environment, names_in("/dev"))
        self._devices = DeviceReader(lambda: used, moment, unmeasured, environment=environment)

    def read(self) -> dict[str, list[Reading]]:
        """Take a reading of everything now, by table."""
        return {
            "process": [self._process.read()],
            "system": [self._system.read()],
            "devices": list(self._devices.read()),
        }

    def close(self) -> None:
        """Let NVML go."""
        self._devices.close()


def _cpu_ns(processes: Processes) -> int | None:
    own = processes.own()
    return None if own is None else own.cpu_ns


def visible_gpus(environment: Mapping[str, str], device_files: list[str]) -> list[UsedDevice]:
    """Give the GPUs that a program may use, by the numbers that it knows them by.

    Args:
        environment: Of the program; `CUDA_VISIBLE_DEVICES` may leave some out.
        device_files: Names in `/dev`.
    """
    count = sum(_GPU.fullmatch(name) is not None for name in device_files)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA ends the list at the first name that is none.
        ends = next((n for n, name in enumerate(names) if name in ("", "-1")), len(names))
        count = min(count, ends)
    return [UsedDevice(number) for number in range(count)]
