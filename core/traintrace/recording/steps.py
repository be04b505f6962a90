"""One step while it is being captured.

A capture holds what the journal cannot: counts, memory, logged values, flags. It ends once, by
`complete` or `abort`; a capture that has ended ignores every later call, so a late caller can never
finish a step that is not its own.
"""

from collections.abc import Callable, Sequence


class StepCapture:
    """Facts about the step that is open, until it is completed or aborted.

    A capture is made at every step on the training thread, so what is usual is a class attribute and
    only what was noted is an instance attribute.

    Attributes:
        micro_batches: Micro-batches so far.
        samples: True batch sizes summed; None until a batch of known size came.
        tokens: Tokens without padding. padded_tokens: tokens with it.
        source: Whose batches count as this step's micro-batches, where several loaders feed it.
        ended: True once the step was completed or aborted.
        on_end: Called once, with the capture and whether it was completed; sets `ended` first.
        updated: True once an optimizer update was attempted.
        update_skipped: True or False where it is known whether the update was skipped, else None.
        peak_allocated_bytes: Peak of the device's allocator, None without one. peak_reserved_bytes:
            the same for reserved memory.
        rss_bytes: Resident memory of the process. gc_ns: time in the garbage collector. Both are
            filled in by the drain.
        scalars: Logged (name, value) pairs; a value may be an object that resolves later.
    """

    micro_batches: int = 0
    samples: int | None = None
    tokens: int | None = None
    padded_tokens: int | None = None
    epoch: int | None = None
    framework_step: int | None = None
    flags: int = 0
    source: object = None
    updated: bool = False
    update_skipped: bool | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    rss_bytes: int | None = None
    gc_ns: int | None = None
    scalars: Sequence[tuple[str, object]] = ()

    ended: bool = False
    on_end: "Callable[[StepCapture, bool], None] | None" = None

    def count(
        self,
        samples: int | None = None,
        tokens: int | None = None,
        padded_tokens: int | None = None,
    ) -> None:
        """Add to the step's sizes; None adds nothing."""
        if samples is not None:
            self.samples = (self.samples or 0) + samples
        if tokens is not None:
            self.tokens = (self.tokens or 0) + tokens
        if padded_tokens is not None:
            self.padded_tokens = (self.padded_tokens or 0) + padded_tokens

    def log(self, name: str, value: object) -> None:
        """Note one logged value."""
        if not isinstance(self.scalars, list):
            self.scalars = []
        self.scalars.append((name, value))

    def complete(self) -> bool:
        """End the step here and publish it; False if it had ended already."""
        return self._finish(True)

    def abort(self) -> bool:
        """Drop the step: its time becomes `aborted`; False if it had ended already."""
        return self._finish(False)

    def _finish(self, completed: bool) -> bool:
        if self.ended:
            return False
        if self.on_end is not None:
            self.on_end(self, completed)
        self.ended = True
        return True
