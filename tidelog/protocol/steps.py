"""Work in steps, so that one large request does not delay the requests of other clients.

Steps are a generator. It yields wherever it may be interrupted, and returns the result:

    yield None            other work may run now
    yield a function      the function blocks for long: run it in a thread; the yield returns its result
    yield Heavy.BEGINS    the following steps hold much memory; few generators may do this at a time
    yield Heavy.ENDS      the memory is released

`tidelog.broker.scheduling.slices` decides how many steps run in a slice; `run_steps` runs all steps at once.
State may change between two steps: a value that was looked up before a yield must be immutable, or be looked
up again. Steps that are dropped before their end are closed: GeneratorExit is raised at the yield.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum
from heapq import merge
from io import BytesIO
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


_SORTED_AT_ONCE: Final = 1000
_RELEASED_PER_STEP: Final = 200

LONG_ARRAY: Final = 500
"""The number of elements from which an array is released in steps."""

BYTES_PER_STEP: Final = 1 << 20
"""The number of bytes that are copied at once; this takes about 0.5 ms."""


class Heavy(Enum):
    """Marks the beginning and the end of steps that hold much memory."""

    BEGINS = 0
    ENDS = 1


Step: TypeAlias = Callable[[], Any] | Heavy | None
Steps: TypeAlias = Generator[Step, Any, T]


def map_items(function: Callable[[ItemT], ResultT], items: Iterable[ItemT]) -> Steps[tuple[ResultT, ...]]:
    """Return the results of `function` for all `items`, with a step for each item."""
    results = []
    for item in items:
        results.append(function(item))
        yield None
    return tuple(results)


def map_steps(
    function: Callable[[ItemT], Steps[ResultT]], items: Iterable[ItemT]
) -> Steps[tuple[ResultT, ...]]:
    """Return the results for all `items` of `function`, which itself runs in steps."""
    results = []
    for item in items:
        results.append((yield from function(item)))
        yield None
    return tuple(results)


def without_duplicates(items: Iterable[ItemT]) -> Steps[list[ItemT]]:
    """Return `items` without duplicates, in order; for messages, whose hashes take long to compute."""
    distinct: dict[ItemT, None] = {}
    for item in items:
        distinct[item] = None
        yield None
    return list(distinct)


def sorted_in_steps(items: Iterable[str]) -> Steps[Iterator[str]]:
    """Return `items` sorted, in steps: sorting a million at once takes a second."""
    parts: list[list[str]] = [[]]
    for item in items:
        parts[-1].append(item)
        if len(parts[-1]) == _SORTED_AT_ONCE:
            parts[-1].sort()
            parts.append([])
            yield None
    parts[-1].sort()
    return merge(*parts)


def copied(buffer: memoryview) -> Steps[bytes]:
    """Return the bytes of `buffer`, copied in steps; it must not change until the end."""
    # Memory of the whole size from the start: growth would move up to 100 MB in one step, for 20 to 30 ms.
    copy = BytesIO(bytes(len(buffer)))
    yield None
    for position in range(0, len(buffer), BYTES_PER_STEP):
        copy.write(buffer[position : position + BYTES_PER_STEP])
        yield None
    # The result is the memory that was written to, not another copy.
    return copy.getvalue()


def append_in_steps(out: bytearray, data: bytes) -> Steps[None]:
    """Append `data` to `out` in steps."""
    view = memoryview(data)
    for position in range(0, len(view), BYTES_PER_STEP):
        out += view[position : position + BYTES_PER_STEP]
        yield None


def release_in_steps(*arrays: list[Any]) -> Steps[None]:
    """Remove the elements of `arrays`, a few in each step: to release 100,000 at once takes 10 ms."""
    for array in arrays:
        while array:
            del array[-_RELEASED_PER_STEP:]
            yield None


def in_thread(work: Callable[[], T]) -> Steps[T]:
    """Return the result of `work`, which runs in a thread."""
    result: T = yield work
    return result


def as_heavy_work(steps: Steps[T]) -> Steps[T]:
    """Return the result of `steps`, which hold much memory until they end."""
    yield Heavy.BEGINS
    try:
        result = yield from steps
    except Exception:
        yield Heavy.ENDS
        raise
    yield Heavy.ENDS
    return result


def run_steps(steps: Steps[T]) -> T:
    """Run all `steps` at once in this thread and return their result."""
    step_result: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(step_result) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        step_result = error = None
        if callable(step):
            try:
                step_result = step()
            except Exception as failure:
                error = failure
