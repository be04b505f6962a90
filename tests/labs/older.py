"""Summaries as older versions wrote them."""

import copy
from typing import Any


def as_version_0_1(summary: dict[str, Any]) -> dict[str, Any]:
    """Give a summary as version 0.1 wrote it."""
    old = copy.deepcopy(summary)
    old["schema_version"] = "0.1"
    old["system"] = old["process"] = old["ranks"] = old["guard"] = None
    for of in (old["memory"] or {}).values():
        for name in ("by_rank", "max_rank"):
            (of or {}).pop(name, None)
    del old["setup"]["batch_bytes"]
    (old["setup"]["loader"] or {}).pop("reads_for_all", None)
    del old["environment"]["cpu"], old["environment"]["flags"]
    for metric in old["step_time"]["metrics"].values():
        for name in ("start", "end", "drift", "tail"):
            del metric[name]
    return old
