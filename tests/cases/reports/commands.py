"""The public door of these cases: the command, and what it prints."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from traintrace_reporting.cli import main

THRESHOLD = "--max-step-time-regression-pct"


def command(*words: object) -> Result:
    """Run `traintrace` in this process."""
    return CliRunner().invoke(main, list(map(str, words)))


def content(*words: object) -> Any:
    """Run a command that must end well, and give the JSON that it prints."""
    result = command(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def page(*words: object) -> str:
    """Run a command that must end well, and give its page with all blanks and line ends made one."""
    result = command(*words)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def named(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Give the row of that name."""
    return next(row for row in rows if row["name"] == name)


def written(path: Path, summary: dict[str, Any]) -> Path:
    """Write a summary, and give its path."""
    path.write_text(json.dumps(summary), "utf-8")
    return path
