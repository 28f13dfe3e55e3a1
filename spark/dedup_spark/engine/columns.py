"""Tables in the engine: arrays of whole numbers, one a column, all of one length.

Python is slow row by row and fast column by column. These are the few operations on whole columns that the rest of this
package uses again and again: read them first.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = dict[str, Column]


def joined(parts: Iterable[Columns], names: Sequence[str]) -> Columns:
    """The rows of all parts, one part after the other; of no parts, empty columns."""
    listed = list(parts)
    return {name: np.concatenate([np.empty(0, np.int64), *(part[name] for part in listed)]) for name in names}


def taken(columns: Columns, rows: Column | Mask | slice) -> Columns:
    """The rows with these numbers, or of this mask."""
    return {name: column[rows] for name, column in columns.items()}


def size(columns: Columns) -> int:
    """How many rows there are."""
    return len(next(iter(columns.values())))


def firsts(*keys: Column) -> Mask:
    """Of rows sorted by `keys`: whether each is the first of its key."""
    first = np.ones(len(keys[0]), dtype=bool)
    for number, key in enumerate(keys):
        changed = key[1:] != key[:-1]
        first[1:] = changed if number == 0 else first[1:] | changed
    return first


def groups(first: Mask) -> Iterator[slice]:
    """The slice of each group of sorted rows."""
    starts = np.flatnonzero(first).tolist()
    yield from map(slice, starts, [*starts[1:], len(first)])


def finals(first: Mask) -> Column:
    """The number of the last row of each group of sorted rows."""
    return np.flatnonzero(np.append(first[1:], True)[: len(first)])


def since(first: Mask, amount: Column) -> Column:
    """Of sorted rows: the sum of `amount` over the rows of the same key that come before each."""
    before = np.cumsum(amount) - amount
    starts: Column = before[first]
    within: Column = before - starts[np.cumsum(first) - 1]
    return within


def highest_before(first: Mask, amount: Column, none: int) -> Column:
    """Of sorted rows: the highest `amount` of the rows of the same key that come before each; `none` of the first."""
    amounts, rank = np.unique(amount, return_inverse=True)
    highest = np.maximum.accumulate((np.cumsum(first) - 1) * len(amounts) + rank)
    before: Column = amounts[np.concatenate((highest[:1], highest[:-1])) % max(len(amounts), 1)]
    return np.where(first, none, before)


def repeated(parts: Column) -> tuple[Column, Column]:
    """Row i parts[i] times: (which row, which of its parts from 0)."""
    owner = np.repeat(np.arange(len(parts)), parts)
    return owner, np.arange(len(owner)) - (np.cumsum(parts) - parts)[owner]
