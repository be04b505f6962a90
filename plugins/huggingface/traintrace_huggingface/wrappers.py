"""The wrappers that stand in for the Trainer's methods: they mark, call the original, and mark.

Each is made once per attempt with its marks ready, and returns at once on any other thread, in a
forked child, and after the session ended. None changes an argument, a result or an exception.
"""

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any

from traintrace.accounts import EPOCH_BOUNDARY, H2D, LOGGING
from traintrace.recording.journal import Journal
from traintrace_huggingface.boundaries import Boundaries

Function = Callable[..., Any]
Wrapper = Callable[[Function], Function]


def charged(journal: Journal, account: int) -> Wrapper:
    """Charge every call to `account`."""
    enter, leave = journal.marker(account), journal.marker(~account)

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != journal.owner:
                return original(*args, **kwargs)
            try:
                enter()
                return original(*args, **kwargs)
            finally:
                leave()

        return call

    return wrap


def collecting(boundaries: Boundaries, account: int) -> Wrapper:
    """Charge calls that happen while batches are collected."""
    journal = boundaries.session.journal
    enter, leave = journal.marker(account), journal.marker(~account)

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not boundaries.collecting or get_ident() != journal.owner:
                return original(*args, **kwargs)
            try:
                enter()
                return original(*args, **kwargs)
            finally:
                leave()

        return call

    return wrap


def collection(boundaries: Boundaries) -> Wrapper:
    """Charge the collection of a group's batches."""
    journal = boundaries.session.journal

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def get_batch_samples(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != journal.owner:
                return original(*args, **kwargs)
            result = None
            try:
                boundaries.begin_collection()
                result = original(*args, **kwargs)
                return result
            finally:
                boundaries.end_collection(result)

        return get_batch_samples

    return wrap


def fetch(boundaries: Boundaries) -> Wrapper:
    """Charge the fetch that finds the end of the data, inside a collection that still brings a batch.

    accelerate's loader looks for it before it delivers its last batch; workers are stopped there.
    """
    journal = boundaries.session.journal

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            if not boundaries.collecting or get_ident() != journal.owner:
                return original(iterator)
            began = journal.now()
            try:
                boundaries.collecting = False  # loaders that are read inside are part of the data
                return original(iterator)
            except StopIteration:
                journal.write_since(began, EPOCH_BOUNDARY)
                raise
            finally:
                boundaries.collecting = True

        return __next__

    return wrap


def send(boundaries: Boundaries) -> Wrapper:
    """Charge the move of a batch to the device; after a resume it also tells batches apart.

    accelerate moves batch n just before it fetches batch n + 1.
    """
    journal = boundaries.session.journal
    enter, leave = journal.marker(H2D), journal.marker(~H2D)

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def send_to_device(*args: Any, **kwargs: Any) -> Any:
            if not boundaries.collecting or get_ident() != journal.owner:
                return original(*args, **kwargs)
            if boundaries.skip:
                result = original(*args, **kwargs)
                boundaries.skipped_one()
                return result
            if not boundaries.moves:
                return original(*args, **kwargs)
            boundaries.count_tokens(args[0] if args else None)
            try:
                enter()
                return original(*args, **kwargs)
            finally:
                leave()

        return send_to_device

    return wrap


def apart(boundaries: Boundaries, account: int) -> Wrapper:
    """Charge a method that is no training; if the Trainer was logging, that has ended."""
    charge = charged(boundaries.session.journal, account)

    def wrap(original: Function) -> Function:
        call = charge(original)

        @functools.wraps(original)
        def call_apart(*args: Any, **kwargs: Any) -> Any:
            if boundaries.logging:
                boundaries.end_logging()
            return call(*args, **kwargs)

        return call_apart

    return wrap


def log_save_evaluate(boundaries: Boundaries, trainer: Any) -> Wrapper:
    """Charge gathering and reading the loss, which comes before anything else in this method."""
    journal = boundaries.session.journal
    enter = journal.marker(LOGGING)

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def _maybe_log_save_evaluate(*args: Any, **kwargs: Any) -> Any:
            if not trainer.control.should_log or get_ident() != journal.owner:
                return original(*args, **kwargs)
            try:
                boundaries.logging = True
                enter()
                return original(*args, **kwargs)
            finally:
                boundaries.end_logging()

        return _maybe_log_save_evaluate

    return wrap


def log(boundaries: Boundaries) -> Wrapper:
    """Charge a call of `log` and keep the loss that it tells."""
    journal = boundaries.session.journal
    charge = charged(journal, LOGGING)

    def wrap(original: Function) -> Function:
        call = charge(original)

        @functools.wraps(original)
        def log(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            finally:
                if get_ident() == journal.owner:
                    boundaries.end_logging()
                    boundaries.logged(args[0] if args else kwargs.get("logs"))

        return log

    return wrap
