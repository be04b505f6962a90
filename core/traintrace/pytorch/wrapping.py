"""Know what wraps torch's loaders, and charge what torch's loader does inside a wrapper's request.

A wrapper is often a generator: it makes torch's iterator inside its first request, and may find the end of
the data inside a request that still delivers a batch. Neither is waiting for a batch.
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any, Final

from torch.utils.data import dataloader

from traintrace.accounts import EPOCH_BOUNDARY
from traintrace.pytorch.loopstate import LOADER, WRAPPER, LoopState
from traintrace.recording.journal import Journal

_BASE: Final[Any] = getattr(dataloader, "_BaseDataLoaderIter", ())

# accelerate's loaders fetch a batch before they deliver the one before it, to know which is the last.
# Its SkipDataLoader does not, nor do Fabric's.
_AHEAD: Final = frozenset(("DataLoaderShard", "DataLoaderDispatcher", "MpDeviceLoaderWrapper"))
_READS_FOR_ALL: Final = "DataLoaderDispatcher"
READS_AHEAD_IN: Final = "accelerate.data_loader"


def kind_of(iterator: Any) -> int:
    """Say what is asked for a batch where `iterator` is: `LOADER` or `WRAPPER`."""
    return LOADER if isinstance(iterator, _BASE) else WRAPPER


def reads_ahead(batches: Any) -> bool:
    """Say whether `batches`, a loader or its iterator, is known to fetch a batch too early."""
    if isinstance(batches, GeneratorType):
        frame = batches.gi_frame
        module = None if frame is None else frame.f_globals.get("__name__")
        return module == READS_AHEAD_IN and batches.__qualname__.partition(".")[0] in _AHEAD
    return any(
        kind.__module__ == READS_AHEAD_IN and kind.__name__ in _AHEAD
        for kind in type(batches).__mro__
    )


def reads_for_all(loader: Any) -> bool:
    """Say whether the batches of all ranks are read by rank 0, and `loader` hands them on."""
    return any(
        kind.__module__ == READS_AHEAD_IN and kind.__name__ == _READS_FOR_ALL
        for kind in type(loader).__mro__
    )


def make_iterator(original: Callable[[Any], Any], loader: Any, journal: Journal) -> Any:
    """Let `loader` make its iterator and start its workers."""
    try:
        journal.write(EPOCH_BOUNDARY)
        return original(loader)
    finally:
        journal.write(~EPOCH_BOUNDARY)


def fetch_for_wrapper(
    fetch: Callable[[Any], Any], iterator: Any, loop: LoopState, journal: Journal
) -> Any:
    """Fetch inside a wrapper's request, which is charged already unless the data has ended."""
    began = journal.now()
    try:
        loop.fetching = LOADER
        return fetch(iterator)
    except StopIteration:
        journal.write_since(began, EPOCH_BOUNDARY)
        raise
    finally:
        loop.fetching = WRAPPER
