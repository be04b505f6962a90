"""What each rank did itself before the others could go on, and what was waiting.

A round is what lies between two synchronisations of the gradients: the optimizer and the callbacks
of the step before, what lies between the steps, and this step up to the end of its own backward.
So the optimizer's delay of one step is found in the round that waits for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.accounts import GROUPS, STEP_ACCOUNT_NAMES
from traintrace_analysis.findings import Clock
from traintrace_analysis.metrics import rank_means
from traintrace_analysis.pauses import share_out
from traintrace_analysis.ranks.cutter import Cutter
from traintrace_analysis.step_window import Floats, Ints, StepWindow

WAITING: Final = GROUPS["waiting"]
# Bills of their own: what happens now and then is no rank's pace. See the family between_steps.
_OCCASIONAL: Final = (
    "startup", "epoch_boundary", "evaluation", "prediction", "checkpoint", "tuning",
    "resume_skip", "aborted",
)  # fmt: skip
_BETWEEN: Final = ("gap", "logging")
_AFTER_SYNC: Final = ("optimizer", "clip", "callbacks")
_PHASES: Final = ("input_wait", "forward", "backward")
_SHARDED: Final = ("fsdp", "sharded", "deepspeed", "zero", "model_parallel", "tensor_parallel")


@dataclass(frozen=True, slots=True, eq=False)
class OwnWork:
    """Ranks that can be compared, by rounds; all times in ns, no NaN.

    Attributes:
        ranks, nodes: Of each matrix row. rows: the row of each in the window's matrices.
        left_out: Ranks that are not compared, with the reason.
        clock: "device": the device's work, and the wait for batches as far as the device stood idle.
            "host": all that the training thread did.
        marked: True if the end of each rank's own backward work was marked.
        sharded: True if forward and backward may hold communication (FSDP, ZeRO).
        blind: True if only the host of an accelerator was timed.
        accounts: Parts of the own work by account.
        doubtful: Sets of accounts that may hold waiting for other ranks as well, the likely ones first.
        own: Everything but what is known to be waiting.
        waiting: Known waiting; 0 where none was marked.
        row: Time from one step's close to the next, per round: the median over ranks.
        step: The same without what happens now and then.
    """

    ranks: tuple[int, ...]
    nodes: tuple[int, ...]
    rows: Ints
    left_out: Mapping[int, str]
    clock: Clock
    marked: bool
    sharded: bool
    blind: bool
    accounts: Mapping[str, Floats]
    doubtful: tuple[frozenset[str], ...]
    own: Floats
    waiting: Floats
    row: Floats
    step: Floats

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.step)

    @property
    def even_step_ns(self) -> float:
        """Usual step if nobody had to wait for anybody, as far as waiting was marked."""
        for_others = np.median(self.waiting, axis=0) - self.waiting.min(axis=0)
        return max(1.0, float(np.median(self.step - for_others)))

    def hidden(self, doubtful: frozenset[str]) -> Floats:
        """Give the time in accounts that may hold waiting.

        Of a phase that nobody saw, and of a device that nobody timed, the time may lie anywhere but
        in the wait for batches.
        """
        if doubtful >= self.accounts.keys() - {"input_wait"}:
            return (
                self.own - self.accounts["input_wait"]
                if "input_wait" in self.accounts
                else self.own
            )
        return _sum((self.accounts[name] for name in doubtful), self.own.shape)


def is_sharded(window: StepWindow) -> bool:
    """Tell whether forward and backward may hold communication, so that they prove no computing."""
    names = {(rank.setup.strategy or "").lower() for rank in window.facts}
    return any(part in name for name in names for part in _SHARDED)


def measure_own_work(window: StepWindow, pauses: Floats | None = None) -> OwnWork | None:
    """Give the own work of all ranks that can be compared; None for fewer than two, or no time.

    Args:
        window: The steps.
        pauses: Ranks by steady steps in ns: time that other findings name, which is left out.
    """
    if len(window.ranks) < 2 or window.steady_steps < 1:
        return None
    rows, left_out, marked = _comparable(window)
    if len(rows) < 2:
        return None
    pick = Cutter(window, rows)
    accelerator_host = window.accelerator and window.clock == "host"
    sharded = is_sharded(window)
    row, step, total, waiting = _host_times(window, pick)
    if not step.sum() > 0.0:
        return None
    accounts = _device_accounts(window, pick) if window.clock == "device" else _host_accounts(pick)
    if window.clock == "device":
        total = _sum(accounts.values(), step.shape)
    if pauses is not None:
        parts = share_out(accounts, pauses[pick.rows])
        accounts = {name: part - parts[name] for name, part in accounts.items()}
        total = np.maximum(total - _sum(parts.values(), step.shape), 0.0)
    doubtful = _doubtful(accounts, marked=marked, sharded=sharded, blind=accelerator_host)
    if not accelerator_host:
        after: dict[str, Floats] = {
            name: accounts[name] for name in _AFTER_SYNC if name in accounts
        }
        moved = {name: _by_round(part) for name, part in after.items()}
        total = total - _sum(after.values(), step.shape) + _sum(moved.values(), step.shape)
        accounts = {**accounts, **moved}
    return OwnWork(
        ranks=tuple(window.ranks[place] for place in rows),
        nodes=tuple(window.facts[place].node for place in rows),
        rows=rows,
        left_out=left_out,
        clock=window.clock,
        marked=marked,
        sharded=sharded,
        blind=accelerator_host,
        accounts=accounts,
        doubtful=doubtful,
        own=total,
        waiting=waiting,
        row=np.median(row, axis=0),
        step=np.median(step, axis=0),
    )


def _comparable(window: StepWindow) -> tuple[Ints, dict[int, str], bool]:
    """Give the rows that measured what others did, why the rest is left out, and if syncs are marked."""
    count = len(window.ranks)
    known = {
        name: ~np.isnan(rank_means(window.steady(name), count))
        for name in (*_PHASES, "gradient_sync")
    }
    left_out: dict[int, str] = {}
    fit = np.ones(count, dtype=bool)
    for name in _PHASES:
        if known[name].any():
            for place in np.flatnonzero(fit & ~known[name]):
                left_out[window.ranks[place]] = f"{name} not measured"
            fit &= known[name]
    sync = known["gradient_sync"]
    marked = bool(2 * (fit & sync).sum() > fit.sum())
    if marked:
        for place in np.flatnonzero(fit & ~sync):
            left_out[window.ranks[place]] = "the end of its own backward work not marked"
        fit &= sync
    return np.flatnonzero(fit), left_out, marked


def _host_times(window: StepWindow, pick: Cutter) -> tuple[Floats, Floats, Floats, Floats]:
    """Give row time, step time, own time and known waiting on the host clock."""
    row = pick.cut(window.close_ns - window.start_ns).copy()
    if not pick.first:
        row[:, 0] = pick.cut(window.close_ns - window.open_ns)[:, 0]
    step = row - pick.spans(_OCCASIONAL)
    waiting = pick.spans(WAITING, inside=False)
    for name in WAITING:
        part = pick.measured(window.host.get(name))
        if part is not None:
            waiting += part
    return row, step, step - waiting, waiting


def _host_accounts(pick: Cutter) -> dict[str, Floats]:
    accounts = {}
    for name in STEP_ACCOUNT_NAMES:
        part = pick.measured(pick.window.host.get(name))
        if name not in WAITING and part is not None:
            outside = name in pick.window.between
            accounts[name] = part + pick.spans((name,), inside=False) if outside else part
    for name in _BETWEEN:
        if name in pick.window.between or name in pick.window.inside:
            accounts[name] = pick.spans((name,))
    return accounts


def _device_accounts(window: StepWindow, pick: Cutter) -> dict[str, Floats]:
    """Give the device's work; a wait for batches counts as far as the device can have stood idle."""
    accounts = {
        name: part
        for name in ("h2d", "forward", "backward", "optimizer")
        if (part := pick.measured(window.device.get(name))) is not None
    }
    wait = pick.measured(window.host.get("input_wait"))
    if wait is not None:
        busy = _sum(accounts.values(), wait.shape)
        idle = np.maximum(pick.cut(window.host["step_time"]) - busy, 0.0)
        accounts["input_wait"] = np.minimum(wait, idle)
    return accounts


def _doubtful(
    accounts: Mapping[str, Floats], *, marked: bool, sharded: bool, blind: bool
) -> tuple[frozenset[str], ...]:
    """Name the accounts that may hold waiting, in sets, the likely ones first.

    Preparing a batch: a count gathered from all ranks. Backward: where its own end is not marked.
    Forward: sharded parameters, and more rarely buffers that are broadcast, or batch norm over all
    ranks. Of a phase that nobody saw, the time may lie anywhere.
    """
    if blind or "forward" not in accounts or "backward" not in accounts:
        return (frozenset(accounts) - {"input_wait"},)
    likely = {"batch_prep"} | (set() if marked and not sharded else {"backward"})
    sets = [likely | {"forward"}] if sharded else [likely, likely | {"forward"}]
    present = [frozenset(names & set(accounts)) for names in sets]
    return tuple(names for names in dict.fromkeys(present) if names)


def _by_round(after: Floats) -> Floats:
    """Move what follows the synchronisation into the round that has to wait for it."""
    moved: Floats = np.concatenate([after[:, :1], after[:, :-1]], axis=1)
    return moved


def _sum(parts: Iterable[Floats], shape: tuple[int, ...]) -> Floats:
    total = np.zeros(shape)
    for part in parts:
        total += part
    return total
