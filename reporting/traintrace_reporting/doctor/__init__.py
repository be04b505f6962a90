"""What this machine and this installation offer to tracing; imports no torch and no framework."""

from traintrace_reporting.doctor.examination import (
    PLUGIN_GROUP,
    examine,
    measure_price,
    obstacles,
)
from traintrace_reporting.doctor.page import render

__all__ = ["PLUGIN_GROUP", "examine", "measure_price", "obstacles", "render"]
