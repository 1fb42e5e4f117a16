"""A progress bar on a terminal, one line per step elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from rich import progress as bars
from rich.console import Console, RenderableType

from tidelog.base.count_text import count_text


class _BarBelow(bars.Progress):
    """A progress bar, and above it the result of `above` at each refresh."""

    above: Callable[[], RenderableType] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.above is not None:
            yield self.above()
        yield from super().get_renderables()


class Progress:
    """Counts the records of one step; `total` is None if it is unknown.

    The result of `above` is shown over the bar, and updated at each refresh of the terminal.
    """

    def __init__(
        self,
        console: Console,
        name: str,
        total: int | None,
        above: Callable[[], RenderableType] | None = None,
    ) -> None:
        self._console = console
        self._name = name
        self._count = 0
        self._bar: bars.Progress | None = None
        self._task = bars.TaskID(0)
        if console.is_terminal:
            columns = (
                bars.TextColumn("{task.description}"),
                bars.BarColumn(),
                bars.TextColumn("{task.completed:,} records"),
                bars.TimeElapsedColumn(),
            )
            self._bar = bar = _BarBelow(*columns, console=console, transient=True)
            bar.above = above
            self._task = self._bar.add_task(name, total=total)

    def advance(self, records: int) -> None:
        """Add to the count; may be called from threads."""
        self._count += records
        if self._bar is not None:
            self._bar.advance(self._task, records)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if error is None:
            self._console.print(f"{self._name}: {count_text(self._count, 'record', style=',')}")
