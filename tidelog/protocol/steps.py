"""Work that can be done in slices, so that one large request does not delay all others.

Steps are a generator. It yields wherever it may be interrupted, and returns the result:

    yield None            other work may run now
    yield a function      it takes a long time: call it in a thread; the yield returns its result
    yield Heavy.BEGINS    the next steps use much memory, which only a few pieces of work may do at a time
    yield Heavy.ENDS      this memory is released

`tidelog.broker.scheduling.slices` decides how many steps make a slice; `completed` runs them all at once.
Between two steps any state may change: what was looked up before a yield must be looked up again, or be
immutable. Steps that are not run to their end are closed: GeneratorExit is raised at the yield.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum
from heapq import merge
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


_SORTED_AT_ONCE: Final = 1000


class Heavy(Enum):
    """Marks the begin and the end of steps that use much memory."""

    BEGINS = 0
    ENDS = 1


Step: TypeAlias = Callable[[], Any] | Heavy | None
Steps: TypeAlias = Generator[Step, Any, T]


def each(function: Callable[[ItemT], ResultT], items: Iterable[ItemT]) -> Steps[tuple[ResultT, ...]]:
    """Return what `function` returns for each item; a step per item."""
    results = []
    for item in items:
        results.append(function(item))
        yield None
    return tuple(results)


def each_in_steps(
    function: Callable[[ItemT], Steps[ResultT]], items: Iterable[ItemT]
) -> Steps[tuple[ResultT, ...]]:
    """Return the results of the steps that `function` returns for each item."""
    results = []
    for item in items:
        results.append((yield from function(item)))
        yield None
    return tuple(results)


def distinct(items: Iterable[ItemT]) -> Steps[list[ItemT]]:
    """Return `items`, each once; for messages, whose hashes take time."""
    found: dict[ItemT, None] = {}
    for item in items:
        found[item] = None
        yield None
    return list(found)


def in_order(items: Iterable[str]) -> Steps[Iterator[str]]:
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


def in_thread(work: Callable[[], T]) -> Steps[T]:
    """Return the result of `work`, which is called in a thread."""
    result: T = yield work
    return result


def as_heavy_work(steps: Steps[T]) -> Steps[T]:
    """Return the result of `steps`, which use much memory until they end."""
    yield Heavy.BEGINS
    try:
        result = yield from steps
    except Exception:
        yield Heavy.ENDS
        raise
    yield Heavy.ENDS
    return result


def completed(steps: Steps[T]) -> T:
    """Return the result of `steps`, all of which are run now and in this thread."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = error = None
        if callable(step):
            try:
                answer = step()
            except Exception as failure:
                error = failure
