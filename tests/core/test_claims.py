"""Who gets which run folder: many processes at once, many starts in one second, a name that is taken."""

import multiprocessing
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity
from traintrace.runs.claims import claim_folder, create_folder, id_of
from traintrace.runs.environment import describe_environment
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import list_manifests
from traintrace.runs.start import start_run

PLUGIN = PluginIdentity("test", "0", "none", "0")
RANKS = 4


def at_once(work: Callable[[int, Any], Any], processes: int = RANKS) -> list[Any]:
    """Run `work(number, barrier)` in as many processes; give what each gave."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes)
    results: Any = context.SimpleQueue()

    def run(number: int) -> None:
        results.put((number, work(number, barrier)))

    workers = [context.Process(target=run, args=(number,)) for number in range(processes)]
    for worker in workers:
        worker.start()
    given = dict(results.get() for _ in workers)
    for worker in workers:
        worker.join()
    return [given[number] for number in range(processes)]


def test_all_who_claim_with_one_id_get_one_folder_and_no_two_ids_share(tmp_path: Path) -> None:
    rounds = 40

    def claim(number: int, barrier: Any) -> list[Path]:
        taken = []
        for turn in range(rounds):
            barrier.wait()
            # Two jobs of two ranks each want one name in one moment.
            taken.append(claim_folder(tmp_path, "train", f"job-{turn}-{number % 2}"))
        return taken

    first, second, third, fourth = at_once(claim)
    assert first == third
    assert second == fourth
    assert len({*first, *second}) == 2 * rounds
    assert {id_of(folder) for folder in first} == {f"job-{turn}-0" for turn in range(rounds)}
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert left == [], "folders that were prepared and not needed"


@pytest.mark.parametrize("shared", ["job", "store"])
def test_fifty_starts_of_four_ranks_in_one_second_are_fifty_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    monkeypatch.setattr("time.strftime", lambda form: "20261130-115959")
    stores = tmp_path / "stores"
    stores.mkdir()
    runs, environment = tmp_path / "runs", describe_environment(())

    def agree(start: int, number: int, mark: str, make: Callable[[], str]) -> str:
        """A store like torchrun's: the first to come makes the run, and the others wait for its word."""
        told = stores / f"told-{start}"
        try:
            (stores / f"first-{start}").mkdir()
        except FileExistsError:
            while not told.exists():
                os.sched_yield()
            return told.read_text()
        made = make()
        new = stores / f"new-{start}"
        new.write_text(made)
        new.rename(told)
        return made

    def start(rank: int, barrier: Any) -> list[tuple[str, str]]:
        found = []
        for turn in range(50):
            job = f"slurm-{turn}.0" if shared == "job" else None
            identity = Identity(rank, rank, RANKS, job=job)
            asked = partial(agree, turn) if shared == "store" else None
            options = TraceOptions(run_dir=runs)
            barrier.wait()
            run, writer = start_run(
                options, PLUGIN, identity, environment, asked, FaultReporter(True), 0
            )
            writer.release()
            found.append((str(run.folder), run.manifest.id))
        return found

    ranks = at_once(start)
    assert all(rank == ranks[0] for rank in ranks)
    assert len({folder for folder, _ in ranks[0]}) == len({one for _, one in ranks[0]}) == 50
    folders = [path for path in runs.iterdir() if not path.name.startswith(".")]
    assert len(folders) == 50
    for folder in folders:
        files = sorted(path.name for path in (folder / "ranks").glob("*.sqlite"))
        assert files == [f"rank-{rank:05d}.sqlite" for rank in range(RANKS)]


def test_a_folder_with_anything_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "checkpoint").write_text("mine")
    (tmp_path / "train-2").write_text("a file")
    (tmp_path / "train-3").symlink_to(tmp_path / "nowhere")
    taken = claim_folder(tmp_path, "train", "abc")
    assert taken == tmp_path / "train-4"
    assert [path.name for path in (tmp_path / "train").iterdir()] == ["checkpoint"]


def test_an_empty_folder_of_that_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    assert claim_folder(tmp_path, "train", "abc") == tmp_path / "train"
    assert id_of(tmp_path / "train") == "abc"


def test_a_claim_finds_its_folder_again_and_never_another_s(tmp_path: Path) -> None:
    own, other = claim_folder(tmp_path, "train", "abc"), create_folder(tmp_path, "train")
    assert claim_folder(tmp_path, "train", "abc") == own
    assert other == tmp_path / "train-2"
    assert id_of(other) not in (None, "abc")


def test_what_was_prepared_by_a_process_that_was_killed_is_cleared_and_nothing_else(
    tmp_path: Path,
) -> None:
    hour_ago = time.time() - 3600
    for name in (".new-1-whole", ".new-2-begun", ".new-3-young", ".new-4-used", ".newer"):
        (tmp_path / name).mkdir()
    for name in (".new-1-whole", ".new-3-young", ".new-4-used"):
        (tmp_path / name / "ranks").mkdir()
        (tmp_path / name / ".run-id").write_text("gone")
    (tmp_path / ".new-4-used" / "ranks" / "mine").write_text("mine")
    for folder in tmp_path.iterdir():
        if folder.name != ".new-3-young":
            os.utime(folder, (hour_ago, hour_ago))
    claim_folder(tmp_path, "train", "abc")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".new-3-young", ".new-4-used", ".newer", "train"}
    assert (tmp_path / ".new-4-used" / "ranks" / "mine").exists()
    assert list_manifests(tmp_path) == ([], [])
