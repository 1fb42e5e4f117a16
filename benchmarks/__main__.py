"""Run the benchmarks: `python -m benchmarks [--quick] [--scale share] [suite ...]`, all suites by default.

Prints a table of figures with their references, ratios and targets, and writes
`benchmarks/results/bench.json`. A figure is the median of its rounds; its reference is measured
between them. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.figures import Figure, show, write
from benchmarks.suites import SUITES
from benchmarks.suites.effort import FULL, QUICK


def main() -> None:
    """Run the suites that the arguments select."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--scale", type=float, help="share of the full amounts, such as numbers of records")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f"{unknown[0]!r} is not one of {', '.join(SUITES)}")
    effort = QUICK if options.quick else FULL
    if options.scale is not None:
        effort = replace(effort, scale=options.scale)
    console = Console()
    figures: list[Figure] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        names = options.suites or list(SUITES)
        task = progress.add_task("benchmarks", total=len(names))
        for name in names:
            progress.update(task, description=name)
            for figure in SUITES[name](effort):
                figures.append(figure)
                ratio = "" if figure.ratio is None else f" ({figure.ratio:.2f} x {figure.reference_name})"
                progress.console.print(f"{figure.name}: {figure.value:.4g} {figure.unit}{ratio}")
            progress.advance(task)
    show(console, figures)
    write(figures, effort.rounds)


if __name__ == "__main__":
    main()
