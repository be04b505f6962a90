"""Read `traintrace.yaml` into keys, values and lines; PyYAML's safe types, and nothing that is ambiguous."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from traintrace_reporting.settings_keys import SettingsError

_MOST_BYTES: Final = 1 << 20


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses keys that stand twice, and aliases: each may stand for a billion values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node; an alias is refused."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"the alias *{event.anchor} is not read: write its value out",
                event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping whose keys all differ."""
        found = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            try:
                stands_twice = key in found
            except TypeError:
                continue  # no key at all: PyYAML says so itself
            if stands_twice:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} stands twice", key_node.start_mark
                )
            found.add(key)
        return super().construct_mapping(node, deep)


def read_entries(path: Path) -> Iterator[tuple[str, Any, int]]:
    """Give each entry of a settings file: key, value, and the line of the key, counted from 1.

    Raises:
        SettingsError: The file cannot be read, is no YAML, or is no mapping.
    """
    loader = None
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise SettingsError(f"{path}: larger than {_MOST_BYTES:,} bytes: no settings file")
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:  # an empty file
            return
        if not isinstance(node, yaml.MappingNode):
            raise SettingsError(
                f"{path}, line {_line(node.start_mark)}: not a mapping of keys to values"
            )
        loader.construct_document(node)  # refuses what stands twice
        for key_node, value_node in node.value:
            value = loader.construct_object(value_node, deep=True)
            yield str(key_node.value), value, _line(key_node.start_mark)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {_line(mark)}" if mark is not None else ""
        raise SettingsError(f"{path}{place}: {error.problem or error}") from error
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot be read ({_first_line(error)})") from error
    finally:
        if loader is not None:
            loader.dispose()


def line_within(path: Path, keys: Sequence[str]) -> int | None:
    """Give the line in which the last of `keys`, each inside the one before, stands in a settings file.

    None if it is not there, or not any more.
    """
    line = None
    try:
        loader = _Loader(path.read_bytes())
        try:
            node = loader.get_single_node()
            for key in keys:
                pairs = node.value if isinstance(node, yaml.MappingNode) else ()
                found = next((pair for pair in pairs if pair[0].value == key), None)
                if found is None:
                    return line
                node, line = found[1], _line(found[0].start_mark)
        finally:
            loader.dispose()
    except (OSError, yaml.YAMLError, ValueError):
        return line
    return line


def _line(mark: Any) -> int:
    return int(mark.line) + 1


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
