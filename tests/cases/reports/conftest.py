"""What the cases of this folder share."""

from tests.cases.reports.clocked import clocked

__all__ = ["clocked"]
