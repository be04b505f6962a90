"""From one rank's file to its facts: the best that can be made of it, and in words what is missing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, cast, get_args

from traintrace import accounts, facts
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.facts import LoaderSetup, RankFacts, Setup, TracerCost
from traintrace.flopfacts import DenseModel, FlopFacts
from traintrace.runs.liveness import is_dead
from traintrace.store.reader import LAST_POSSIBLE, RankReader
from traintrace.store.schema import COUNTERS, STEP_COLUMNS

NAME: Final = re.compile(r"rank-(\d{5})(?:\.a(\d+))?\.sqlite")
_UNKNOWN: Final = float("nan")
_NO_RECORD: Final = "its process ended before it had written anything"


@dataclass(frozen=True, slots=True)
class RankFile:
    """What one rank's file gave.

    Attributes:
        location: Its path, or its name in memory.
        facts: What the rank recorded; None if nothing of it can be read.
        problem: Why there are no facts; empty if there are.
        seen_ns: The last moment at which the rank is known to have been alive [ns, its own clock].
        seen_unix_ns: What the wall clock showed then; None if the file does not say.
        is_gone: The process that wrote it is known to have ended.
    """

    location: str
    facts: RankFacts | None
    problem: str = ""
    seen_ns: int = 0
    seen_unix_ns: int | None = None
    is_gone: bool = False

    @property
    def called(self) -> str:
        """Give what people call the rank: "rank 3"."""
        found = NAME.fullmatch(Path(self.location).name)
        if found is None:
            return self.location
        attempt = f" of start {int(found[2]) + 1}" if found[2] else ""
        return f"rank {int(found[1])}{attempt}"


def read_rank(
    location: str, columns: Sequence[str], since: int, until: int = LAST_POSSIBLE
) -> RankFile:
    """Read one rank's file; nothing but a newer schema makes this fail.

    Args:
        location: Its path, or a shared in-memory name.
        columns: Columns of `steps`.
        since: Leave out steps up to this number.
        until: Leave out steps, and their spans, after this number.

    Raises:
        NewerSchemaError: It was written by a newer traintrace.
        KeyError: A name is no column of `steps`.
    """
    try:
        reader = RankReader(location)
    except NewerSchemaError:
        raise
    except RunReadError as error:
        return RankFile(location, None, _why(error, location))
    try:
        return _read(reader, location, columns, since, until)
    except RunReadError as error:
        return RankFile(location, None, _why(error, location))
    finally:
        reader.close()


def before_latest(locations: Sequence[str], latest: int) -> int:
    """Give the step after which at least `latest` common steps of the last attempt have rows.

    A step without a row on one rank is common to none, so such steps are read beyond `latest`.
    """
    reached: dict[int, list[int]] = {}
    without_row = 0
    for location in locations:
        try:
            reader = RankReader(location)
        except NewerSchemaError:
            raise
        except RunReadError:
            continue  # a rank without record
        try:
            last, meta = reader.last_step(), reader.meta()
        except RunReadError:
            continue
        finally:
            reader.close()
        if last and isinstance(meta.get("attempt"), int):
            reached.setdefault(meta["attempt"], []).append(last)
            counters = meta.get("counters")
            dropped = counters.get("dropped_rows") if isinstance(counters, dict) else None
            without_row += dropped if isinstance(dropped, int) else 0
    if not reached:
        return 0
    return max(0, min(reached[max(reached)]) - latest - without_row)


def _why(error: RunReadError, location: str) -> str:
    """Give the error without the path: summaries name no paths."""
    path = Path(location)
    if path.is_file() and not path.stat().st_size:
        return "its file is empty"
    return str(error).removeprefix(f"{location}: ")


def _read(
    reader: RankReader, location: str, columns: Sequence[str], since: int, until: int
) -> RankFile:
    meta = reader.meta()
    if "status" not in meta and not reader.damage and not reader.last_step():
        return RankFile(location, None, _NO_RECORD)
    try:
        totals = reader.totals()
    except (RunReadError, TypeError):
        totals = _totals_of_rows(reader, meta)
    rank, attempt = _numbers(location)
    read = RankFacts(
        rank=_integer(meta.get("rank"), rank),
        attempt=_integer(meta.get("attempt"), attempt),
        node=_integer(meta.get("node"), 0),
        status=_one_of(facts.RunStatus, meta.get("status"), "running"),
        level=_one_of(facts.Level, meta.get("level"), "host"),
        device_clock=meta.get("device_clock"),
        setup=_setup_from(_mapping(meta.get("setup"))),
        # Without the counters there is no number of transitions to price.
        cost=_cost_from(_mapping(meta.get("cost")) if "counters" in meta else {}),
        totals=totals,
        columns=reader.columns(columns, since=since, until=until),
        spans=reader.spans(since=since, until=until),
        regions=reader.regions(since=since),
        scalars=reader.scalars(since=since),
        events=reader.events(),
        system=reader.system(),
        process=reader.process(),
        devices=reader.devices(),
        pipeline=reader.pipeline(),
        unmeasured=_mapping(meta.get("unmeasured")),
        warnings=[],
        process_peak_allocated_bytes=meta.get("process_peak_allocated_bytes"),
        flops=FlopFacts.from_json(meta.get("flops")),
    )
    warnings = _texts(meta.get("warnings"))
    if reader.damage:
        missing = ", ".join(reader.damage)
        warnings.append(f"its file is damaged; not in this report: {missing}")
    ended_ns = totals.start_ns + totals.wall_ns
    seen_ns, seen_unix_ns = _seen(meta.get("seen"))
    return RankFile(
        location,
        replace(read, warnings=warnings, seen_ns=seen_ns),
        seen_ns=max(seen_ns or 0, ended_ns),
        seen_unix_ns=seen_unix_ns,
        is_gone=is_dead(meta.get("process")),
    )


def _seen(value: object) -> tuple[int, int] | tuple[None, None]:
    """Give the moment at which a rank was alive last, on its own clock and on the wall clock."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(at, int) for at in value):
        return value[0], value[1]
    return None, None


def _totals_of_rows(reader: RankReader, meta: Mapping[str, Any]) -> facts.Totals:
    """Add up the rows, where the file's own sums cannot be read: sums of these rows alone."""
    reader.damage.append("its sums, which are made of the steps that can be read")
    columns = reader.columns(STEP_COLUMNS)
    flags = columns["flags"]
    kept = [i for i in range(len(flags)) if not (flags[i] or 0) & facts.ABANDONED]
    steps = {columns["step"][i] for i in kept}
    inside: dict[str, int] = {}
    calls: dict[str, int] = {}
    between: dict[str, int] = {}
    for name in accounts.STEP_ACCOUNT_NAMES:
        values = [value for i in kept if (value := columns[f"{name}_ns"][i]) is not None]
        if values:
            inside[name] = sum(values)
    for name in accounts.PHASES:
        calls[name] = sum(columns[f"{name}_calls"][i] or 0 for i in kept)
    for span in reader.spans():
        if span.step in steps:
            amounts = inside if span.inside else between
            amounts[span.account] = amounts.get(span.account, 0) + span.ns
            calls[span.account] = calls.get(span.account, 0) + span.calls
    whole = {name: inside.get(name, 0) + between.get(name, 0) for name in {*inside, *between}}
    known = _mapping(meta.get("counters"))
    counters = dict.fromkeys(COUNTERS, 0) | dict.fromkeys(
        ("samples", "tokens", "padded_tokens", "updates_skipped", "epochs", "gc_ns")
    )
    counters |= {name: known[name] for name in COUNTERS if name in known}
    counters |= {
        "steps": len(kept),
        "start_ns": min((columns["start_ns"][i] or 0 for i in kept), default=0),
        "wall_ns": sum(whole.values()),
        "micro_batches": sum(columns["micro_batches"][i] or 0 for i in kept),
    }
    return facts.Totals(
        account_ns=whole,
        inside_ns={name: inside.get(name, 0) for name in whole},
        calls={name: calls.get(name, 0) for name in whole},
        **cast("dict[str, Any]", counters),
    )


def _numbers(location: str) -> tuple[int, int]:
    """Give rank and attempt as the file's name has them."""
    found = NAME.fullmatch(Path(location).name)
    return (0, 0) if found is None else (int(found[1]), int(found[2] or 0))


def _integer(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _one_of(words: Any, value: object, otherwise: str) -> Any:
    return value if value in get_args(words) else otherwise


def _setup_from(content: Mapping[str, Any]) -> Setup:
    """Give the configuration; what a later version knows besides is passed over."""
    loader = LoaderSetup(**_known(LoaderSetup, _mapping(content.get("loader"))))
    dense = DenseModel.from_json(content.get("dense"))
    return replace(Setup(**_known(Setup, content)), loader=loader, dense=dense)


def _cost_from(content: Mapping[str, Any]) -> TracerCost:
    unknown = TracerCost(_UNKNOWN, None, _UNKNOWN, None, _UNKNOWN)
    return replace(unknown, **_known(TracerCost, content))


def _known(record: type, content: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(record)} - {"loader", "dense"}
    return {name: value for name, value in content.items() if name in names}
