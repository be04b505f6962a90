"""What is registered to run when the interpreter ends; Python itself does not tell."""

import atexit
from collections.abc import Callable
from typing import Any

from tests.unchanged.subject.process import repr_of


class ExitFunctions:
    """Stands in `atexit`, passes everything on and keeps the list."""

    def __init__(self) -> None:
        self._registered: list[Callable[..., Any]] = []
        register, unregister = atexit.register, atexit.unregister

        def note_register(function: Any, *args: Any, **kwargs: Any) -> Any:
            self._registered.append(function)
            return register(function, *args, **kwargs)

        def note_unregister(function: Any) -> None:
            self._registered = [each for each in self._registered if each != function]
            unregister(function)

        atexit.register, atexit.unregister = note_register, note_unregister  # type: ignore[assignment]

    def names(self) -> list[str]:
        """Name what is registered by now, in order."""
        return [repr_of(function) for function in self._registered]
