"""Take from a `final_summary.json` what a comparison needs; what contradicts itself is refused."""

from collections.abc import Mapping
from typing import Final, get_args

from traintrace_analysis.comparison.fields import Fields
from traintrace_analysis.comparison.metric_sides import metric_sides
from traintrace_analysis.comparison.model import ComparedRun, RunFinding, Value
from traintrace_analysis.findings import SEVERITY_ORDER, Severity
from traintrace_analysis.step_window import MetricClock

_STATUSES: Final = ("running", "completed", "failed", "interrupted", "lost")
_SEVERITIES: Final[Mapping[str, Severity]] = {name: name for name in SEVERITY_ORDER}
_CLOCKS: Final[Mapping[str, MetricClock]] = {name: name for name in get_args(MetricClock)}


def compared_run(summary: Mapping[str, object]) -> ComparedRun:
    """Read a summary of any schema version that still has the fields of the first.

    Raises:
        ValueError: A field is missing, not finite, of another kind or contradicts another; the
            message begins with the field's name.
    """
    top = Fields("", summary)
    run, setup = top.fields("run"), top.fields("setup")
    environment, counts = top.fields("environment"), top.fields("counts")
    step_time = top.fields("step_time")
    window = step_time.fields("window")
    device, loader = setup.fields("device"), setup.fields("loader")
    first = window.maybe_number("start_step")
    nodes = run.fields("nodes").count("expected")
    world_size = run.count("world_size")
    warmup, within = window.count("warmup_steps"), window.count("steps")
    if warmup > within:
        raise window.wrong("warmup_steps", f"{warmup} of {within} steps")
    processor, on_processor = environment.scalar("cpu"), device.scalar("kind") == "cpu"
    versions = ("python", "torch", "cuda", "driver")
    settings = ("precision", "compiled", "batch_size", "accumulation", "omp_threads", "parameter_count")  # fmt: skip
    return ComparedRun(
        name=run.text("name"),
        id=run.text("id"),
        status=_one_of(run, "status", _STATUSES),
        clock=_CLOCKS[_one_of(step_time, "clock", tuple(_CLOCKS))],
        steps=within - warmup,
        warmup_steps=warmup,
        first_step=None if first is None else int(first),
        started_at=run.number("started_at"),
        duration_s=run.maybe_number("duration_s", least=0.0),
        world_size=world_size,
        nodes=nodes,
        work_per_step=_per_step(counts, "samples"),
        tokens_per_step=_per_step(counts, "tokens"),
        topology={
            "world_size": world_size,
            "nodes": nodes,
            "strategy": setup.scalar("strategy"),
        },
        hardware={
            "device kind": device.scalar("kind"),
            "device": device.scalar("name"),
            "device count": device.scalar("count"),
            "CPU count": setup.scalar("cpu_count"),
            **({"processor": processor} if on_processor else {}),
        },
        versions={
            **{name: environment.scalar(name) for name in versions},
            **({} if on_processor else {"processor": processor}),
            "framework": f"{run.text('framework')} {run.scalar('framework_version') or ''}".strip(),
        },
        configuration={
            **{name: setup.scalar(name) for name in settings},
            **{f"loader {name}": loader.scalar(name) for name in loader.values},
        },
        fingerprint=environment.text("fingerprint") if environment.has("fingerprint") else "",
        metrics=metric_sides(top),
        findings=_findings(top),
        families={name: state.text("state") for name, state in top.fields("families").each()},
        accounts_s_per_step=_accounts(top, counts),
        throughput=_throughput(top.fields("throughput")),
        memory=_memory(top),
        system=_worst(top, "system"),
        process=_worst(top, "process"),
        warnings=tuple(str(text) for text in _list(top, "warnings")),
    )


def _one_of(fields: Fields, name: str, allowed: tuple[str, ...]) -> str:
    value = fields.text(name)
    if value not in allowed:
        raise fields.wrong(name, f"{value!r} is none of {', '.join(allowed)}")
    return value


def _per_step(counts: Fields, name: str) -> float | None:
    """Give samples or tokens per step: over all ranks and the whole run, so a last short batch counts."""
    total, steps = counts.maybe_number(name, least=0.0), counts.maybe_number("steps", least=0.0)
    return total / steps if total is not None and steps else None


def _findings(top: Fields) -> tuple[RunFinding, ...]:
    return tuple(
        RunFinding(
            kind=one.text("kind"),
            family=one.text("family"),
            severity=_SEVERITIES[_one_of(one, "severity", tuple(_SEVERITIES))],
            cost_s=one.maybe_number("cost_s", least=0.0) or 0.0,
        )
        for one in top.many("findings")
    )


def _accounts(top: Fields, counts: Fields) -> dict[str, float]:
    steps = counts.maybe_number("steps", least=0.0)
    if not steps or not top.has("wall"):
        return {}
    wall = top.fields("wall")
    accounts = wall.fields("accounts_ns")
    amounts = {name: accounts.count(name) for name in accounts.values}
    total = wall.count("total_ns")
    if sum(amounts.values()) != total:
        raise wall.wrong("total_ns", f"{total} is not the sum of accounts_ns, {sum(amounts.values())}")  # fmt: skip
    return {name: amount / 1e9 / steps for name, amount in amounts.items()}


def _throughput(fields: Fields) -> dict[str, float | None]:
    return {
        f"{name}.{side}": rates.maybe_number(side, least=0.0)
        for name, rates in fields.each()
        for side in ("step", "round_trip")
    }


def _memory(top: Fields) -> dict[str, float | None]:
    if not top.has("memory"):
        return {}
    memory = top.fields("memory")
    return {
        name: memory.fields(name).maybe_number("max", least=0.0) if memory.has(name) else None
        for name in ("rss_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
    }


def _worst(top: Fields, section: str) -> dict[str, float | None]:
    """Give the worst readings over ranks; summaries of schema 0.1 have no such section."""
    if not top.has(section):
        return {}
    fields = top.fields(section)
    return {
        name.replace("_worst", ""): fields.fields(name).maybe_number("value")
        if fields.has(name)
        else None
        for name in fields.values
        if "_worst" in name
    }


def _list(top: Fields, name: str) -> tuple[Value, ...]:
    value = top.values.get(name)
    return tuple(value) if isinstance(value, list | tuple) else ()
