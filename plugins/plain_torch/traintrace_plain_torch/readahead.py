"""Take the batches of a loader that reads ahead where the loop asks for them: from what it gives."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from traintrace.facts import LOOKAHEAD
from traintrace.pytorch.batches import TracedIterator
from traintrace.pytorch.loopstate import LoopState
from traintrace.pytorch.passes import Pass
from traintrace.pytorch.setup import describe_loader, known_length
from traintrace.pytorch.sizes import SizeReader
from traintrace.pytorch.wrapping import kind_of
from traintrace.session import Session


def trace_read_ahead(
    iterator: Iterator[Any], loader: Any, session: Session, loop: LoopState
) -> Iterator[Any]:
    """Give `iterator` of `loader` with its waits charged; requests to torch's own count no more."""
    loader_setup, batch_size = describe_loader(loader)
    begun = Pass(
        session,
        loop,
        SizeReader(batch_size),
        known_length(loader),
        kind=kind_of(iterator),
        flags=LOOKAHEAD,
        setup=replace(session.setup, loader=loader_setup, batch_size=batch_size),
    )
    loop.has_loader = loop.explicit = True
    session.unmeasured.pop("input_wait", None)
    return TracedIterator(iterator, session, loop, begun)
