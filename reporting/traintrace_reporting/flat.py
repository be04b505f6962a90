"""The flat projection of a summary that experiment trackers take."""

import math
from collections.abc import Mapping
from typing import Any


def flatten(summary: Mapping[str, Any]) -> dict[str, float]:
    """Give the numbers that a tracker wants, by slash-separated name; unknown ones are left out.

    `traintrace/duration_s`, `traintrace/steps`;
    `traintrace/throughput/{steps_per_s,samples_per_s,tokens_per_s}` (round trip) and the same with
    `_in_step`; `traintrace/step_time/{mean,median,p95,p99}_ms`; for every other metric
    `traintrace/{metric}/{mean_ms,median_ms,share}`; `traintrace/wall/{account or group}_share`;
    `traintrace/verdict/{confidence,cost_s,speedup}`; `traintrace/overhead/{per_step_us,share}`;
    `traintrace/memory/{rss_max_bytes,peak_allocated_max_bytes,peak_reserved_max_bytes}`;
    `traintrace/ranks/{worst_rank,worst_excess_ms,worst_excess_share}` of the rank with most work above the
    median; `traintrace/system/...` and `traintrace/process/...`: every worst value of these sections,
    by its name there (`ram_used_worst_share`, `temperature_worst_c`, `run_queue_worst_share`, ...);
    `traintrace/efficiency/{mfu,mfu_in_step}`; `traintrace/communication/shared_wait_ms`;
    `traintrace/stages/{stage}/{items_per_s,busy_share}`.
    """
    wanted: dict[str, object] = {
        "duration_s": summary["run"]["duration_s"],
        "steps": summary["counts"]["steps"],
    }
    for name, rate in summary["throughput"].items():
        wanted[f"throughput/{name}"] = rate["round_trip"]
        wanted[f"throughput/{name}_in_step"] = rate["step"]
    for name, metric in summary["step_time"]["metrics"].items():
        keys = ("mean", "median", "p95", "p99") if name == "step_time" else ("mean", "median")
        wanted.update({f"{name}/{key}_ms": metric[key] for key in keys})
        if name != "step_time":
            wanted[f"{name}/share"] = metric["share"]
    wall = summary["wall"]
    if wall is not None and wall["total_ns"]:
        for name, ns in {**wall["accounts_ns"], **wall["groups_ns"]}.items():
            wanted[f"wall/{name}_share"] = ns / wall["total_ns"]
    verdict, overhead = summary["verdict"], summary["overhead"]
    wanted["verdict/confidence"] = verdict["confidence"]
    wanted["verdict/cost_s"] = verdict["cost_s"]
    wanted["verdict/speedup"] = (verdict["gain"] or {}).get("speedup")
    wanted["overhead/per_step_us"] = (overhead["per_step_us"] or {}).get("estimate")
    wanted["overhead/share"] = overhead["share"]
    for name, reading in (summary["memory"] or {}).items():
        wanted[f"memory/{name.removesuffix('_bytes')}_max_bytes"] = (reading or {}).get("max")
    wanted.update(_ranks(summary["ranks"]))
    for section in ("system", "process"):
        for name, reading in (summary[section] or {}).items():
            if "_worst_" in name:
                wanted[f"{section}/{name}"] = (reading or {}).get("value")
    mfu = (summary["efficiency"] or {}).get("mfu") or {}
    wanted["efficiency/mfu"], wanted["efficiency/mfu_in_step"] = mfu.get("run"), mfu.get("steps")
    wanted["communication/shared_wait_ms"] = (summary["communication"] or {}).get("shared_wait_ms")
    for stage in (summary["stages"] or {}).get("stages") or ():
        wanted[f"stages/{stage['name']}/items_per_s"] = stage["items_per_s"]
        wanted[f"stages/{stage['name']}/busy_share"] = stage["busy_share"]
    return {
        f"traintrace/{name}": float(value)
        for name, value in wanted.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _ranks(compared: Mapping[str, Any] | None) -> dict[str, object]:
    """Give the rank with most work of its own above the median of the ranks, and how much that is."""
    by_rank = {
        rank: work
        for rank, work in ((compared or {}).get("by_rank") or {}).items()
        if work["excess_ms"] is not None
    }
    if not by_rank:
        return {}
    most = max(by_rank, key=lambda rank: by_rank[rank]["excess_ms"])
    return {
        "ranks/worst_rank": int(most),
        "ranks/worst_excess_ms": by_rank[most]["excess_ms"],
        "ranks/worst_excess_share": by_rank[most]["excess_share"],
    }
