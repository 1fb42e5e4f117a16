"""Shows progress on standard error if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting(noun: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows a count and its rate.

    It shows nothing if the user types the input in the terminal, because the display would mix with the text.
    """
    if not sys.stderr.isatty() or sys.stdin.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} " + noun),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(noun, total=None, rate="")

        def show(done: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, rate="" if speed is None else f"{speed:,.0f}/s")

        yield show


@contextmanager
def bar(noun: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """Yield a function that moves a bar to `done` of `total`, followed by a short text."""
    if not sys.stderr.isatty():
        yield lambda done, words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(noun, total=total, words="")

        def show(done: int, words: str) -> None:
            progress.update(task, completed=done, words=words)

        yield show
