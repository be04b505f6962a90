"""What all ranks of a job agree on and who they are: no collective, no clock."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from traintrace.runs.identity import Identity

_TIMEOUT = timedelta(seconds=5)


def agree_on_run(number: int, own_mark: str, make: Callable[[], str]) -> str:
    """Call `make` on the rank that is first, and give what it gave on every rank.

    A restarted attempt of a job finds what the first attempt agreed on.

    The launcher's own store is asked, also before a process group exists; without one the default
    group's.

    Args:
        number: Which run of this process it is; ranks make their runs in the same order.
        own_mark: Text that no other rank has.
        make: Makes the run and gives where it is.

    Raises:
        RuntimeError: There is no store yet, or it does not answer within five seconds.
    """
    store = _store(number)
    if store is None:
        raise RuntimeError("there is no process group yet, and no launcher's store")
    first = bytes(store.compare_set("first", "", own_mark)).decode()
    if first == own_mark:
        made = make()
        store.set("run", made)
        return made
    return bytes(store.get("run")).decode()


def _store(number: int) -> Any:
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return None
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = distributed.TCPStore(
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            wait_for_workers=False,
            timeout=_TIMEOUT,
        )
    elif distributed.is_initialized():
        store = distributed.distributed_c10d._get_default_store()
    else:
        return None
    job = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return distributed.PrefixStore(f"traintrace/{job}/{number}", store)


def identity_of_process() -> Identity:
    """Give who this process is: from the process group if there is one, else from the environment."""
    identity = Identity.from_environment()
    distributed: Any = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return identity
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if (identity.rank, identity.world_size) == (rank, size):
        return identity
    if identity.world_size == 1:
        launcher, doubts = identity.launcher, identity.doubts
    else:
        launcher, doubts = "none", (*identity.doubts, _contradiction(identity, rank, size))
    # Started by hand, e.g. by torch.multiprocessing.spawn: all on this machine, as far as can be told.
    return Identity(
        rank,
        rank,
        size,
        attempt=identity.attempt,
        shared_run=identity.shared_run,
        launcher=launcher,
        doubts=doubts,
    )


def _contradiction(identity: Identity, rank: int, size: int) -> str:
    return (
        f"torch.distributed has this process as rank {rank} of {size}, and the variables of its launcher "
        f"(RANK and WORLD_SIZE, or those of {identity.launcher}) as rank {identity.rank} of "
        f"{identity.world_size}; traintrace takes the former"
    )
