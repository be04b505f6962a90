"""Who works in the stages of one process: places at work, and the blocks whose threads and tasks hold them."""

import threading
from typing import Final

from traintrace.stagefacts import WorkerKind
from traintrace.stages.blocks import Block
from traintrace.stages.ledger import WorkerLedger
from traintrace.stages.marks import FOUND, PAUSE, RESUME, START
from traintrace.stages.worker import NOBODY, Recording, Worker

MAX_WORKERS: Final = 1_000


class Places:
    """The workers of one recorder. For any thread.

    Attributes:
        workers: In the order in which their places were made; they are never removed.

    Args:
        recorder: What they write for.
    """

    def __init__(self, recorder: Recording) -> None:
        self._recorder = recorder
        self.workers: list[Worker] = []
        self._changing = threading.RLock()  # held for microseconds

    def enter(self, block: Block) -> bool:
        """Take a place for a block that is just entered; False if there are too many."""
        return self._hold(block, START)

    def take_up(self, block: Block) -> bool:
        """Take a place for a block that was entered before the session began; False if there are too many."""
        return self._hold(block, FOUND)

    def leave(self, block: Block, *, resumes: bool) -> None:
        """Free the place of a block; `resumes`: then its thread or task is back in the block around it."""
        with self._changing:
            # A context that remembers the block keeps nothing of the session.
            worker, block.places, block.worker = block.worker, None, None
            if worker is None or worker.owner == NOBODY:
                return
            outer = worker.outer
            worker.leave()
            if resumes and outer is not None:
                outer.mark(RESUME)

    def _hold(self, block: Block, code: int) -> bool:
        with self._changing:
            # A session that begins finds the block while its thread finds the session, or leaves the block.
            if not self._recorder.recording or block.was_left() or _is_recorded(block):
                return True
            worker = self._free_place(block.stage, self._kind(block))
            if worker is None:
                return False
            around = block.outer
            outer = None if around is None else around.worker
            if outer is not None and outer.owner != NOBODY and outer.recorder is self._recorder:
                outer.mark(PAUSE)
                worker.outer = outer
            worker.hold(block.thread, block.task, code)
            block.places, block.worker = self, worker
            if block.was_left():  # meanwhile, maybe without seeing its worker
                self.leave(block, resumes=True)
            return True

    def _kind(self, block: Block) -> WorkerKind:
        if block.task is not None:
            return "task"
        is_main = block.thread == threading.main_thread().ident
        return "process" if self._recorder.is_child and is_main else "thread"

    def _free_place(self, stage: str, kind: WorkerKind) -> Worker | None:
        for worker in self.workers:
            if worker.stage == stage and worker.kind == kind and worker.owner == NOBODY:
                return worker
        if len(self.workers) >= MAX_WORKERS:
            return None
        worker = Worker(self._recorder, stage, kind, WorkerLedger())
        self.workers.append(worker)
        return worker

    def disown(self) -> None:
        """Let nobody write any more."""
        with self._changing:
            for worker in self.workers:
                worker.disown()

    def leave_to_parent(self) -> None:
        """In a forked child: all of them are the parent's."""
        self._changing = threading.RLock()
        self.disown()
        self.workers = []


def _is_recorded(block: Block) -> bool:
    worker = block.worker
    return worker is not None and worker.owner != NOBODY and worker.recorder.recording
