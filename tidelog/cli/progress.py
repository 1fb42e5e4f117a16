"""Progress on a terminal's standard error; silence anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting(noun: str) -> Iterator[Callable[[int], None]]:
    """A function that shows how many there are so far, with their rate.

    Not while somebody types the input: the display would run through the words.
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
    """A function that moves a bar to `done` of `total` and shows a few words behind it."""
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
