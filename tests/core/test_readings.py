"""Readings as a file holds them: what cannot be is not measured, and what is no number is damage."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.labs.runs import make_rank
from traintrace.readings import DeviceReading, ProcessReading, Reading, SystemReading
from traintrace.store.reader import RankReader
from traintrace.store.schema import reading_columns
from traintrace.store.writer import RankWriter

READINGS: dict[str, Reading] = {
    "system": SystemReading(1_000, interval_ns=500, cpu_cores=1.5),
    "process": ProcessReading(1_000, interval_ns=500, run_queue_ns=200),
    "devices": DeviceReading(1_000, 0, utilisation=0.5, throttle_reasons="sw_power_cap"),
}


def stored(folder: Path, table: str, changes: dict[str, Any]) -> RankReader:
    """Write one reading of each kind, and then `changes` over it as a defect would."""
    path = folder / "rank-00000.sqlite"
    writer = RankWriter(path)
    writer.write((), make_rank(1).totals, readings={name: [one] for name, one in READINGS.items()})
    writer.close()
    with sqlite3.connect(path) as connection:
        for name, value in changes.items():
            connection.execute(f"UPDATE {table} SET {name} = ?", (value,))
    connection.close()
    return RankReader(str(path))


def read(reader: RankReader, table: str) -> list[Any]:
    return list(getattr(reader, table)())


@pytest.mark.parametrize("table", READINGS)
def test_a_reading_comes_back_as_it_was(tmp_path: Path, table: str) -> None:
    reader = stored(tmp_path, table, {})
    assert read(reader, table) == [READINGS[table]]
    reader.close()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e300, -1, 2**62])
@pytest.mark.parametrize("table", READINGS)
def test_an_amount_that_cannot_be_is_not_measured(tmp_path: Path, table: str, value: float) -> None:
    kept = {"at_ns", "device", "throttle_reasons"}
    amounts = [name for name in reading_columns(table) if name not in kept]
    reader = stored(tmp_path, table, dict.fromkeys(amounts, value))
    (one,) = read(reader, table)
    assert {getattr(one, name) for name in amounts} == {None}
    assert one.at_ns == 1_000
    reader.close()


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("system", "cpu_cores", "many"),
        ("process", "rss_bytes", b"\x00"),
        ("process", "at_ns", None),
        ("process", "at_ns", float("inf")),
        ("devices", "device", "cuda:0"),
        ("devices", "throttle_reasons", 4),
    ],
)
def test_what_is_no_number_is_damage_and_left_out(
    tmp_path: Path, table: str, name: str, value: object
) -> None:
    reader = stored(tmp_path, table, {name: value})
    assert read(reader, table) == []
    assert reader.damage == [f"some of its {table}"]
    reader.close()
