"""Processes that a script starts itself are traced like the ranks of a launcher."""

import socket
from pathlib import Path

from tests.launch.lab import RUN, SCRIPTS, check_job, launch
from traintrace import open_run


def test_spawned_ranks_of_a_hand_written_loop_are_one_run(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    job = launch(tmp_path, (*RUN, SCRIPTS / "spawned_training.py"), {"PORT": port})
    check_job(job, world=2, steps=6)
    for rank in open_run(job.run).facts(["forward_calls", "gradient_sync_ns"]).ranks:
        assert rank.columns["forward_calls"] == [1] * 6
        assert "gradient_sync" not in rank.unmeasured
        assert rank.status == "completed"
