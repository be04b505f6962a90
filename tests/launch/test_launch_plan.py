"""The command of a launch: what goes to torchrun, and when there is no torchrun at all."""

import sys

import pytest

from traintrace import TraceOptions, UsageError
from traintrace.launch import (
    LaunchPlan,
    Target,
    command_of,
    node_count,
    node_rank,
    processes_per_node,
)
from traintrace.launch.plan import BOOTSTRAP
from traintrace.launch.torchrun import needs_agent, with_free_port

SCRIPT = Target("script", "train.py", ("--lr", "1", "--options", "-m"))
OPTIONS = TraceOptions(level="host", name="n 1")


def words_of(*flags: str, target: Target = SCRIPT, disable: bool = False) -> list[str]:
    """Give the command from the first -m or script on."""
    plan = LaunchPlan(target=target, options=OPTIONS, torchrun=flags, disable=disable)
    command = command_of(plan)
    assert command[0] == sys.executable
    first = next(i for i, word in enumerate(command) if word in ("-m", "train.py", BOOTSTRAP))
    return command[first:]


def test_one_process_runs_in_a_worker_without_torchrun() -> None:
    worker = [BOOTSTRAP, "worker", "--options", OPTIONS.to_json()]
    assert words_of() == [*worker, "train.py", "--lr", "1", "--options", "-m"]
    module = Target("module", "pkg.train", ("-m",))
    assert words_of(target=module) == [*worker, "-m", "pkg.train", "-m"]
    assert words_of("--nproc-per-node", "1", "--nnodes=1:1") == words_of()


def test_several_processes_run_in_workers_of_torchrun() -> None:
    words = words_of("--nproc-per-node", "2", "--max-restarts=3")
    agent = [BOOTSTRAP, "agent", "--standalone"]
    assert words == [*agent, "--nproc-per-node", "2", "--max-restarts=3", *words_of()]


def test_disabled_the_users_own_command_is_left() -> None:
    own = ["train.py", "--lr", "1", "--options", "-m"]
    assert words_of(disable=True) == own
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    assert words_of("--nproc-per-node=2", disable=True) == [*torchrun, *own]


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        ((), False),
        (("--nproc-per-node", "1"), False),
        (("--nproc_per_node=1", "--nnodes", "1"), False),
        (("--nproc-per-node", "2"), True),
        (("--nproc_per_node=gpu",), True),
        (("--nnodes", "2"), True),
        (("--nnodes=1:2",), True),
        (("--nproc-per-node=1", "--max-restarts=2"), True),
        (("--standalone",), True),
    ],
)
def test_torchrun_is_needed_for_more_than_one_process(flags: tuple[str, ...], needed: bool) -> None:
    assert needs_agent(flags, {}) is needed


def test_torchruns_variables_count_once_torchrun_is_asked_for() -> None:
    assert not needs_agent((), {"PET_NNODES": "2"})
    assert needs_agent(("--nproc-per-node=1",), {"PET_NNODES": "2"})


@pytest.mark.parametrize(
    ("flags", "environment", "free"),
    [
        (("--nproc-per-node=2",), {}, True),
        (("--nproc-per-node=2", "--rdzv-conf=join_timeout=5"), {}, True),
        (("--nproc-per-node=2", "--nnodes=1:1"), {}, True),
        (("--nproc-per-node=2", "--standalone"), {}, False),
        (("--nproc-per-node=2", "--master-port=29511"), {}, False),
        (("--nproc-per-node=2", "--master_addr", "node0"), {}, False),
        (("--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1"), {}, False),
        (("--nproc-per-node=2", "--nnodes", "2"), {}, False),
        (("--nproc-per-node=2", "--nnodes=1:2"), {}, False),
        (("--nproc-per-node=2",), {"PET_RDZV_ENDPOINT": "h:1"}, False),
        (("--nproc-per-node=2",), {"PET_NNODES": "2"}, False),
    ],
)
def test_processes_of_one_node_meet_at_a_free_port_unless_told_where(
    flags: tuple[str, ...], environment: dict[str, str], free: bool
) -> None:
    expected = ("--standalone", *flags) if free else flags
    assert with_free_port(flags, environment) == expected


def test_the_size_of_the_job_is_read_from_the_flags() -> None:
    flags = ("--nnodes", "2:4", "--node_rank=1", "--nproc-per-node", "8")
    assert (node_count(flags, {}), node_rank(flags, {}), processes_per_node(flags, {})) == (2, 1, 8)
    assert (node_count((), {}), node_rank((), {}), processes_per_node((), {})) == (1, 0, 1)
    assert processes_per_node(("--nproc-per-node=gpu",), {}) is None
    assert (node_count((), {"PET_NNODES": "3"}), node_rank((), {"PET_NODE_RANK": "2"})) == (3, 2)
    assert processes_per_node(("--nproc", "3"), {}) == 3  # torchrun takes what is unambiguous


@pytest.mark.parametrize("flag", ["--no-python", "--no_python", "--run-path", "--module", "-m"])
def test_flags_that_start_something_else_are_refused_by_name(flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag.replace('_', '-')} cannot be used"):
        LaunchPlan(target=SCRIPT, torchrun=("--nproc-per-node=2", flag))
