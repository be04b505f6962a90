"""Which run a process writes to: jobs, second runs, two runs of one shell, restarts, launches."""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.labs.coresessions import open_session, run, slurm, start, step
from traintrace import open_run
from traintrace.faults import TraintraceWarning
from traintrace.ports import Ports, Runtime
from traintrace.recording.ending import EndStatus
from traintrace.registry import REGISTRY
from traintrace.runs.folder import create_folder, rank_files
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import Manifest, update
from traintrace.runs.started import StartedRun
from traintrace_analysis.history import list_attempts

ONE_RUN = """
session = open_session(folder, print_report=False, wait_for_ranks_s=60.0)
step(session, 3)
session.finish("completed")
print(session.folder)
"""


@pytest.fixture(autouse=True)
def first_run_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "started", 0)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_tasks_of_one_srun_share_a_run_without_asking_each_other(tmp_path: Path) -> None:
    ranks = [start(ONE_RUN, tmp_path, **slurm(rank, 3)) for rank in range(3)]
    printed = {rank.communicate(timeout=60)[0] for rank in ranks}
    assert printed == {f"{tmp_path}/test-slurm-123.0\n"}
    facts = open_run(tmp_path / "test-slurm-123.0").facts(["step"])
    assert [rank.rank for rank in facts.ranks] == [0, 1, 2]
    assert (facts.id, facts.world_size, facts.status) == ("slurm-123.0", 3, "completed")
    manifest = Manifest.read(tmp_path / "test-slurm-123.0")
    assert (manifest.launcher, manifest.telemetry_status) == ("slurm", "complete")


def test_two_jobs_with_one_name_stay_two(tmp_path: Path) -> None:
    for job in ("123", "124"):
        ranks = [
            start(ONE_RUN.replace("print_report", "name='a', print_report"), tmp_path, **env)
            for env in (slurm(0, 2, job), slurm(1, 2, job))
        ]
        for rank in ranks:
            rank.communicate(timeout=100)
    assert names(tmp_path) == ["a", "a-2"]
    assert {open_run(tmp_path / name).facts([]).id for name in ("a", "a-2")} == {
        "slurm-123.0",
        "slurm-124.0",
    }


def test_two_commands_of_one_task_stay_two_runs(tmp_path: Path) -> None:
    """`srun -n 2 bash -c "python train.py; python train.py"` has one job and one step."""
    for _ in range(2):
        ranks = [start(ONE_RUN, tmp_path, **slurm(rank, 2)) for rank in range(2)]
        for rank in ranks:
            rank.communicate(timeout=60)
    assert names(tmp_path) == ["test-slurm-123.0", "test-slurm-123.0-2"]
    for name in names(tmp_path):
        facts = open_run(tmp_path / name).facts(["step"])
        assert [rank.totals.steps for rank in facts.ranks] == [3, 3]


def test_two_runs_of_a_shell_that_names_one_folder_stay_two(tmp_path: Path) -> None:
    run(ONE_RUN, tmp_path, TRAINTRACE_RUN=str(tmp_path / "mine"))
    first = Path(rank_files(tmp_path / "mine")[0]).read_bytes()
    run(ONE_RUN, tmp_path, TRAINTRACE_RUN=str(tmp_path / "mine"))
    assert names(tmp_path) == ["mine", "mine-2"]
    assert Path(rank_files(tmp_path / "mine")[0]).read_bytes() == first
    assert Manifest.read(tmp_path / "mine-2").part_of == "mine"


def test_two_at_once_of_a_shell_that_names_one_folder_stay_two(tmp_path: Path) -> None:
    mine = str(tmp_path / "mine")
    both = [start(ONE_RUN, tmp_path, TRAINTRACE_RUN=mine) for _ in range(4)]
    printed = {one.communicate(timeout=60)[0] for one in both}
    assert len(printed) == 4
    for name in names(tmp_path):
        assert [rank.totals.steps for rank in open_run(tmp_path / name).facts([]).ranks] == [3]


def test_a_process_s_second_run_follows_the_first_on_all_ranks(tmp_path: Path) -> None:
    twice = ONE_RUN + ONE_RUN
    mine = str(tmp_path / "mine")
    ranks = [
        start(twice, tmp_path, RANK=str(rank), WORLD_SIZE="2", TRAINTRACE_RUN=mine)
        for rank in range(2)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=60)
        assert rank.returncode == 0, errors
    assert names(tmp_path) == ["mine", "mine-2"]
    first, second = (Manifest.read(tmp_path / name) for name in ("mine", "mine-2"))
    assert (first.id, first.part_of) == ("mine", None)
    assert (second.id, second.part_of) == ("mine.1", "mine")
    for name in ("mine", "mine-2"):
        assert [rank.rank for rank in open_run(tmp_path / name).facts([]).ranks] == [0, 1]


def test_a_session_that_is_taken_back_gives_its_number_and_its_place_back(tmp_path: Path) -> None:
    session = open_session(tmp_path, name="run")
    assert session.folder == tmp_path / "run"
    session.discard()
    assert names(tmp_path) == []
    session = open_session(tmp_path, name="run")
    step(session)
    session.finish("completed")
    assert (session.folder, REGISTRY.started) == (tmp_path / "run", 1)


def test_a_session_that_is_taken_back_leaves_a_shared_run_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINTRACE_RUN", str(tmp_path / "mine"))
    open_session(tmp_path).discard()
    assert rank_files(tmp_path / "mine") == []
    session = open_session(tmp_path)
    session.finish("completed")
    assert session.folder == tmp_path / "mine"


def test_what_a_launcher_wrote_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = create_folder(tmp_path, "launched", "abc")
    session = open_session(tmp_path)
    session.finish("completed")
    template = Manifest.read(session.folder)
    written = {"name": "nice", "id": "abc", "launcher": "torchrun", "started_at": 7.0}
    (folder / "manifest.json").write_bytes((session.folder / "manifest.json").read_bytes())
    update(folder, **written, status="running", guard={"range": [1, 2]}, plugin="none")
    monkeypatch.setattr(REGISTRY, "started", 0)
    monkeypatch.setenv("TRAINTRACE_RUN", str(folder))
    session = open_session(tmp_path)
    announced = Manifest.read(folder)
    update(folder, guard={"range": [3, 4]})
    session.finish("failed")
    ended = Manifest.read(folder)
    for manifest in (announced, ended):
        assert {name: getattr(manifest, name) for name in written} == written
        assert manifest.plugin == template.plugin
    assert (announced.status, announced.guard) == ("running", {"range": [1, 2]})
    assert (ended.status, ended.guard) == ("failed", {"range": [3, 4]})


def test_under_our_launcher_rank_0_neither_reports_nor_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(REGISTRY, "launched", True)
    reports: list[object] = []
    identity = Identity(world_size=2, shared_run=str(tmp_path / "run"))
    session = open_session(
        tmp_path, identity, on_finish=lambda run, show: reports.append(run), wait_for_ranks_s=60.0
    )
    step(session)
    session.finish("completed")  # would wait for a minute
    assert reports == []
    assert session.faults.messages == []
    assert Manifest.read(tmp_path / "run").telemetry_status == "unknown"


def test_a_rank_that_is_missing_makes_the_record_partial(
    tmp_path: Path, faults_are_reported: None
) -> None:
    identity = Identity(world_size=2, shared_run=str(tmp_path / "run"))
    session = open_session(tmp_path, identity, wait_for_ranks_s=0.1)
    with pytest.warns(TraintraceWarning, match="rank 1"):
        session.finish("completed")
    assert Manifest.read(tmp_path / "run").telemetry_status == "partial"


def test_the_run_ended_before_rank_0_waited_for_the_others(
    tmp_path: Path, faults_are_reported: None
) -> None:
    identity = Identity(world_size=2, shared_run=str(tmp_path / "run"))
    session = open_session(tmp_path, identity, wait_for_ranks_s=0.5)
    with pytest.warns(TraintraceWarning, match="rank 1"):
        session.finish("completed")
    ended_at = Manifest.read(tmp_path / "run").ended_at
    assert ended_at is not None
    assert time.time() - ended_at >= 0.5


@pytest.mark.parametrize(("status", "waits_s"), [("failed", 1.0), ("completed", 7.0)])
def test_a_rank_that_failed_does_not_keep_its_launcher_waiting(
    tmp_path: Path,
    faults_are_reported: None,
    monkeypatch: pytest.MonkeyPatch,
    status: EndStatus,
    waits_s: float,
) -> None:
    asked: list[float] = []

    def wait(run: StartedRun, identity: Identity, deadline_s: float) -> list[int]:
        asked.append(deadline_s)
        return []

    monkeypatch.setattr(StartedRun, "wait_for_ranks", wait)
    identity = Identity(world_size=2, shared_run=str(tmp_path / "run"))
    open_session(tmp_path, identity, wait_for_ranks_s=7.0).finish(status)
    assert asked == [waits_s]


def test_restarts_keep_the_run_and_tell_the_time_between_them(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    script = """
    session = open_session(folder, print_report=False)
    time.sleep(0.05)
    step(session, int(sys.argv[2]))
    if sys.argv[3] == "dies":
        time.sleep(0.1)  # in a step that is never completed
        session.add_event("alive", "")
        session.flush()
        os.kill(os.getpid(), 9)
    session.finish("completed")
    """.replace("\n    ", "\n")
    first = None
    for attempt, (steps, end) in enumerate([("2", "dies"), ("3", "dies"), ("4", "ends")]):
        variables = {"TORCHELASTIC_RESTART_COUNT": str(attempt), "TRAINTRACE_RUN": str(folder)}
        with start(script, tmp_path, steps, end, **variables) as process:
            process.communicate(timeout=60)
        assert process.returncode == (0 if end == "ends" else -signal.SIGKILL)
        first = first or Manifest.read(folder)
    assert [Path(path).name for path in rank_files(folder)] == [
        "rank-00000.a1.sqlite",
        "rank-00000.a2.sqlite",
        "rank-00000.sqlite",
    ]
    last = Manifest.read(folder)
    assert first is not None
    assert (last.started_at, last.id, last.name) == (first.started_at, first.id, first.name)
    facts = open_run(folder).facts(["step"])
    attempts = list_attempts(facts)
    assert [(one.n, one.status, one.steps) for one in attempts] == [
        (0, "lost", 2),
        (1, "lost", 3),
        (2, "completed", 4),
    ]
    spans = {
        rank.attempt: (rank.totals.start_ns, rank.totals.start_ns + rank.totals.wall_ns)
        for rank in facts.ranks
    }
    assert attempts[0].downtime_before_s is None
    for n in (1, 2):
        since_last_row_s = (spans[n][0] - spans[n - 1][1]) / 1e9
        down_s = attempts[n].downtime_before_s
        assert down_s is not None
        assert 0 < down_s <= since_last_row_s - 0.1, "training that no row tells of is no downtime"
    assert min(attempts[0].wall_s, attempts[1].wall_s) >= 0.15
    assert attempts[2].wall_s >= 0.05


def test_a_killed_run_is_lost_at_once_and_a_living_one_is_not(tmp_path: Path) -> None:
    script = """
    session = open_session(folder, name="run", print_report=False)
    step(session, 2)
    session.flush()
    print("ready", flush=True)
    time.sleep(60)
    """.replace("\n    ", "\n")
    with start(script, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        alive = open_run(tmp_path / "run").status
        process.kill()
        process.wait()
        dead = open_run(tmp_path / "run")
        assert (alive, dead.status) == ("running", "lost")
        assert dead.facts(["step"]).ranks[0].status == "lost"


def test_provenance_is_in_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = Ports(packages=("numpy",), runtime=lambda: Runtime(cuda="12.8", seeds={"torch": 42}))
    session = open_session(tmp_path, ports=ports)
    session.finish("completed")
    environment = json.loads((session.folder / "manifest.json").read_text("utf-8"))["environment"]
    assert environment["cuda"] == "12.8"
    assert environment["seeds"] == {"torch": 42}
    assert "numpy" in environment["packages"]
