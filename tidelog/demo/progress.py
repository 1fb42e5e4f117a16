"""A progress bar on a terminal, one line per step elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich import progress as bars
from rich.console import Console


class Progress:
    """Counts records of one step; `total` None when it is not known beforehand."""

    def __init__(self, console: Console, name: str, total: int | None) -> None:
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
            self._bar = bars.Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task(name, total=total)

    def advance(self, records: int) -> None:
        """Count on; may be called from threads."""
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
            self._console.print(f"{self._name}: {self._count:,} records")
