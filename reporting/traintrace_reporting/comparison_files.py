"""The files of a comparison: both are written whole, or neither, and an error says which could not be."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from traintrace import atomic
from traintrace_reporting.text import TEXT_WIDTH, as_text


def write_page(
    base: Path,
    content: Mapping[str, Any],
    page: Callable[[Mapping[str, Any], int], RenderableType],
) -> None:
    """Write `<base>.json` and `<base>.txt`, and make the folder around them.

    Args:
        base: Path of the files, without their endings.
        content: What the JSON file holds.
        page: Makes the text of it, for so many columns.

    Raises:
        OSError: One cannot be written, and is named; both are as they were.
    """
    text = as_text(page(content, TEXT_WIDTH))
    data = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    base.parent.mkdir(parents=True, exist_ok=True)
    json_file, text_file = (base.with_name(base.name + ending) for ending in (".json", ".txt"))
    atomic.write_texts({json_file: data, text_file: text})
