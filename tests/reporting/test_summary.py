"""The published summary: its shape, its strictness, and its flat projection."""

import importlib.util
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from traintrace.accounts import GROUPS, NAMES
from traintrace.errors import RunReadError
from traintrace.facts import LoaderSetup, RunFacts, Setup, TracerCost
from traintrace_analysis import analyse
from traintrace_analysis.findings import ANSWERS, FAMILIES
from traintrace_analysis.registry import KINDS
from traintrace_analysis.window import METRICS
from traintrace_reporting.schema import validate, validator
from traintrace_reporting.summary import flatten, summarise

MOMENT = "2026-01-02T03:04:05+00:00"
SCENARIOS = (
    "no_ranks", "no_steps", "one_step", "nine_steps", "plain_cpu", "slow_input", "fast_tiny_model",
    "forward_missing_everywhere", "forward_missing_on_one_rank", "rank_without_rows",
    "rank_missing_steps", "evaluation", "checkpoint_inside_steps", "epoch_starts",
    "gpu_device_clock", "gpu_host_clock", "h2d_bound_gpu", "odd_scalars", "restarted",
)  # fmt: skip
Summary = dict[str, Any]


def _builder() -> ModuleType:
    """Load the run builder of the analysis tests, which no import path reaches."""
    path = Path(__file__).parents[1] / "analysis" / "conftest.py"
    spec = importlib.util.spec_from_file_location("run_builder", path)
    assert spec is not None
    assert spec.loader is not None
    built = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(built)
    return built


BUILDER = _builder()
without_steps = BUILDER.without_steps
scenarios = BUILDER.scenarios


@pytest.fixture
def gpu_setup() -> Setup:
    loader = LoaderSetup(workers=4, prefetch_factor=2, pin_memory=False, persistent=False)
    return Setup(device_kind="cuda", device_name="H100", cpu_count=16, loader=loader)


@pytest.fixture
def summary_of(scenarios: dict[str, RunFacts]) -> Callable[[str], Summary]:
    def build(name: str) -> Summary:
        run = scenarios[name]
        return summarise(run, analyse(run), generated_at=MOMENT)

    return build


def test_the_scenarios_are_the_ones_listed_here(scenarios: dict[str, RunFacts]) -> None:
    assert set(SCENARIOS) == set(scenarios)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_summary_is_strict_json_of_the_published_shape(
    summary_of: Callable[[str], Summary], name: str
) -> None:
    summary = summary_of(name)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    validate(summary)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_flat_projection_has_finite_numbers_only(
    summary_of: Callable[[str], Summary], name: str
) -> None:
    flat = flatten(summary_of(name))
    assert all(type(value) is float and math.isfinite(value) for value in flat.values())
    assert all(key.startswith("traintrace/") for key in flat)


def test_the_flat_projection_tells_the_worst_rank_and_the_worst_of_the_machine(
    many_ranks: dict[str, Any],
) -> None:
    flat = flatten(many_ranks)
    assert flat["traintrace/ranks/worst_rank"] == 3.0
    assert flat["traintrace/ranks/worst_excess_ms"] == 2.0
    assert flat["traintrace/ranks/worst_excess_share"] == 0.16
    assert flat["traintrace/system/ram_used_worst_share"] == 0.24
    assert flat["traintrace/system/temperature_worst_c"] == 71.4
    assert flat["traintrace/memory/rss_max_bytes"] == 3_220_000_000.0
    assert "traintrace/system/throttled_worst_share" not in flat
    many_ranks["ranks"] = many_ranks["system"] = None
    assert not any("worst" in name for name in flatten(many_ranks))


def test_the_flat_projection_has_the_names_that_are_documented(
    summary_of: Callable[[str], Summary],
) -> None:
    flat = flatten(summary_of("gpu_device_clock"))
    assert {
        "traintrace/step_time/median_ms",
        "traintrace/throughput/samples_per_s",
        "traintrace/wall/input_wait_share",
        "traintrace/backward/share",
        "traintrace/memory/peak_allocated_max_bytes",
        "traintrace/overhead/per_step_us",
    } <= set(flat)
    leaves = [flat.get(f"traintrace/wall/{name}_share", 0.0) for name in NAMES]
    assert sum(leaves) == pytest.approx(1.0)


def test_the_top_level_keys_are_always_the_same(summary_of: Callable[[str], Summary]) -> None:
    assert [*summary_of("no_ranks")] == [*summary_of("h2d_bound_gpu")]


def test_a_section_that_is_null_says_why(summary_of: Callable[[str], Summary]) -> None:
    summary = summary_of("plain_cpu")
    null = [name for name, value in summary.items() if value is None]
    assert {"system", "process", "ranks", "communication", "guard"} <= set(null)
    for name in null:
        assert summary["coverage"][f"section.{name}"]["reason"], name


def test_the_schema_knows_exactly_the_names_of_the_code() -> None:
    schema = validator().schema
    assert isinstance(schema, dict)
    kinds = [kind for kinds in KINDS.values() for kind in kinds]
    properties, definitions = schema["properties"], schema["$defs"]
    assert definitions["finding"]["properties"]["kind"]["enum"] == kinds
    assert properties["verdict"]["properties"]["kind"]["enum"] == [*kinds, *ANSWERS]
    assert tuple(properties["families"]["properties"]) == FAMILIES
    assert tuple(definitions["accounts_ns"]["properties"]) == NAMES
    assert tuple(properties["step_time"]["properties"]["metrics"]["properties"]) == METRICS
    assert set(properties["wall"]["properties"]["groups_ns"]["properties"]) == set(GROUPS)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda s: s.pop("wall"), "the top level"),
        (lambda s: s.update(extra=1), "the top level"),
        (lambda s: s["run"].update(status="sleeping"), "run/status"),
        (lambda s: s["verdict"].update(confidence=1.5), "verdict/confidence"),
        (lambda s: s["counts"].update(steps="3"), "counts/steps"),
    ],
)
def test_a_summary_of_another_shape_is_refused_with_the_place(
    summary_of: Callable[[str], Summary], change: Callable[[Summary], object], place: str
) -> None:
    summary = summary_of("plain_cpu")
    change(summary)
    with pytest.raises(RunReadError, match=f"at {place}: ") as caught:
        validate(summary)
    assert "\n" not in str(caught.value)


def test_something_that_is_no_summary_is_refused() -> None:
    with pytest.raises(RunReadError, match="the top level"):
        validate([1, 2])


def test_unix_seconds_are_written_as_a_date(scenarios: dict[str, RunFacts]) -> None:
    run = scenarios["plain_cpu"]
    summary = summarise(run, analyse(run), generated_at=1_700_000_000.0)
    assert summary["generated_at"] == "2023-11-14T22:13:20+00:00"


def test_the_cost_of_tracing_is_scaled_from_a_hot_loop_when_nothing_better_is_known(
    summary_of: Callable[[str], Summary],
) -> None:
    overhead = summary_of("plain_cpu")["overhead"]
    assert overhead["method"] == "hot_loop_scaled"
    assert overhead["per_step_us"] == pytest.approx({"estimate": 63.0, "low": 7.0, "high": 105.0})
    assert overhead["transitions_per_step"] == 10.0
    assert overhead["share"] == pytest.approx(63.0 / 11_800, rel=0.02)


def test_the_cost_of_tracing_uses_this_machine_s_price_when_it_was_measured() -> None:
    rank = BUILDER.make_rank(cost=TracerCost(700.0, 3000.0, 0.1, None, 0.0))
    run = BUILDER.make_run(rank)
    overhead = summarise(run, analyse(run), generated_at=MOMENT)["overhead"]
    assert overhead["method"] == "in_situ"
    assert overhead["per_step_us"] == pytest.approx({"estimate": 30.0, "low": 21.0, "high": 39.0})


def test_the_fingerprint_changes_with_the_device_and_not_with_the_seed(
    scenarios: dict[str, RunFacts],
) -> None:
    def fingerprint(run: RunFacts) -> str:
        return str(summarise(run, analyse(run), generated_at=MOMENT)["environment"]["fingerprint"])

    run = scenarios["plain_cpu"]
    seeded = replace(run, environment=replace(run.environment, seeds={"torch": 3}))
    assert fingerprint(run) == fingerprint(seeded)
    assert fingerprint(run) != fingerprint(scenarios["gpu_host_clock"])


def test_a_rank_that_left_nothing_makes_the_record_partial(
    summary_of: Callable[[str], Summary],
) -> None:
    assert summary_of("rank_without_rows")["run"]["telemetry_status"] == "partial"
    assert summary_of("no_ranks")["run"]["telemetry_status"] == "none"
    assert summary_of("plain_cpu")["run"]["telemetry_status"] == "complete"
