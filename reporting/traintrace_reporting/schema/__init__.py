"""The published shape of `final_summary.json`, and the check against it; needs no analysis."""

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from traintrace.errors import RunReadError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

__all__ = ["validate", "validator"]


def validate(summary: object) -> None:
    """Check a summary against the published schema.

    Raises:
        RunReadError: It does not fit; the message names the first place and what is wrong there.
    """
    from jsonschema.exceptions import best_match  # here, since a run that ends needs none of it

    error = best_match(validator().iter_errors(cast(dict[str, Any], summary)))
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "the top level"
        problem = " ".join(error.message.split())
        shown = problem if len(problem) <= 200 else problem[:200] + "..."
        raise RunReadError(f"not a valid summary: at {place}: {shown}")


@cache
def validator() -> "Draft202012Validator":
    """Give the validator of the current schema, loaded once."""
    from jsonschema import Draft202012Validator

    text = files(__name__).joinpath("final_summary.schema.json")
    return Draft202012Validator(json.loads(text.read_text(encoding="utf-8")))
