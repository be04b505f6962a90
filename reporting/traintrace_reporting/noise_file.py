"""The file of a noise model: how much runs of one workload differ on one machine."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from traintrace import atomic
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace_analysis.comparison.calibration import calibrate
from traintrace_analysis.comparison.fields import Fields
from traintrace_analysis.comparison.model import NoiseModel
from traintrace_reporting.comparing import Input
from traintrace_reporting.format import clean, dig
from traintrace_reporting.guarding import guarded_run
from traintrace_reporting.strict_json import parse

KIND: Final = "traintrace noise model"
VERSION: Final = 1
# What must be the same in all runs for a difference between them to be noise.
_ALIKE: Final = (("environment", "cpu"), ("environment", "fingerprint"), ("step_time", "clock"))
_KEYS: Final = frozenset(("kind", "schema_version", *NoiseModel.__slots__))


def measure(runs: Sequence[Input]) -> NoiseModel:
    """Make the noise model of runs of the same code.

    Raises:
        RunReadError: They are too few, given twice, not completed, or not of one workload and machine.
    """
    ids = [str(one.summary["run"]["id"]) for one in runs]
    for number, one in enumerate(runs):
        if ids[number] in ids[:number]:
            raise RunReadError(f"{one.path}: run.id: this run is given twice")
        _check(one, runs[0])
    try:
        return calibrate([guarded_run(one) for one in runs])
    except ValueError as error:
        raise RunReadError(str(error)) from error


def _check(one: Input, first: Input) -> None:
    status = one.summary["run"]["status"]
    if status != "completed":
        raise RunReadError(f"{one.path}: run.status: {status!r}, a run that completed is needed")
    for place in _ALIKE:
        there, here = (dig(each.summary, *place) for each in (first, one))
        if here != there:
            raise RunReadError(
                f"{one.path}: {'.'.join(place)}: {clean(here)!r}, and {clean(there)!r} in {first.path}; "
                "runs of one workload on one machine are needed"
            )
    if not one.summary["step_time"]["window"]["steps"]:
        raise RunReadError(f"{one.path}: step_time.window.steps: 0, a run with steps is needed")


def content_of(model: NoiseModel) -> dict[str, Any]:
    """Give a model as the file holds it."""
    return {"kind": KIND, "schema_version": VERSION, **asdict(model)}


def write_noise(path: Path, model: NoiseModel) -> None:
    """Write a model, whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content_of(model), indent=2, allow_nan=False, ensure_ascii=False)
    atomic.write_text(path, text + "\n")


def read_noise(path: Path) -> NoiseModel:
    """Read a model.

    Raises:
        RunReadError: It is none, or was changed by hand; the message names file and field.
        NewerSchemaError: It was written by a newer traintrace.
    """
    try:
        content = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunReadError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunReadError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise RunReadError(f"{path}: kind: not a noise model of `traintrace guard calibrate`")
    try:
        return _model(Fields("", content), path)
    except ValueError as error:
        raise RunReadError(f"{path}: {error}") from error


def _model(top: Fields, path: Path) -> NoiseModel:
    version = top.count("schema_version", least=1)
    if version > VERSION:
        raise NewerSchemaError(
            f"{path}: written with schema {version}, newer than this traintrace reads; "
            "upgrade traintrace-reporting"
        )
    unknown = sorted(set(top.values) - _KEYS)
    if unknown:
        raise top.wrong(unknown[0], "no such field")
    trending = top.scalar("trending")
    if not isinstance(trending, bool):
        raise top.wrong("trending", f"{trending!r} is no truth value")
    shares = top.fields("metric_sd_share")
    return NoiseModel(
        run_sd_log=top.number("run_sd_log", least=0.0),
        runs=top.count("runs", least=2),
        fingerprint=top.text("fingerprint"),
        metric_sd_share={name: shares.number(name, least=0.0) for name in shares.values},
        trend_log=top.number("trend_log"),
        trending=trending,
    )
