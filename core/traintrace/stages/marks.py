"""What a worker's journal holds: entries of three integers, the last of which says what happened.

moment, moment, START        somebody takes the worker's place
moment, moment, FOUND        the session begins and somebody is at work in the place already
moment, moment, END          the place is free
moment, moment, PAUSE        a stage inside this one begins
moment, moment, RESUME       it has ended
moment, amount, DONE         items are done; see `items_and_tokens`
begin, end, queue_code + what became of it:
    GOT          an item was taken, after waiting from begin to end
    GET_FAILED   there was none
    GET_ENDED    waiting was given up
    PLACED, PUT_FAILED, PUT_ENDED    the same for what is put
"""

from typing import Final

START, END, PAUSE, RESUME, DONE, FOUND = range(6)

GOT, GET_FAILED, GET_ENDED = range(3)
PLACED, PUT_FAILED, PUT_ENDED = range(3, 6)
OPERATIONS: Final = 8

# Values of an entry.
WIDTH: Final = 3

# How a service was found: it is what follows a `get`, what the worker said by `done`, or what precedes the `put` of
# one that only puts. The services that count are those of the kind that the worker's latest is of.
GUESSED, SAID, MADE = range(3)

NOT_SAID: Final = -1
# An amount is (items << SHIFT) + tokens + 1.
SHIFT: Final = 64


def queue_code(number: int) -> int:
    """Give the code to which what became of an operation on the queue of that number is added."""
    return OPERATIONS * (number + 1)


def items_and_tokens(amount: int) -> tuple[int, int]:
    """Give what the amount of a DONE was made of: items, and tokens or NOT_SAID."""
    return amount >> SHIFT, (amount & ((1 << SHIFT) - 1)) - 1
