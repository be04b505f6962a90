"""Make all ranks of a job use one run: no collective, no clock, and before the process group exists."""

import os
from datetime import timedelta
from typing import Any

import torch

_TIMEOUT = timedelta(seconds=5)


def agree_on_run(proposal: str) -> str:
    """Give the text that all ranks agree on: the first proposal to reach the launcher's own store.

    Without torchrun's store the default process group's is used, and without that the proposal stands.
    """
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return proposal
    attempt = os.environ.get("TORCHELASTIC_RUN_ID", "none")
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
        return proposal
    agreed = distributed.PrefixStore("traintrace", store).compare_set(
        f"run/{attempt}", "", proposal
    )
    return bytes(agreed).decode()
