"""Run the benchmarks: `python -m benchmarks [--quick] [suite ...]`, all suites by default.

Prints a table of figures with their references, ratios and targets, and writes
`benchmarks/results/bench.json`. A figure is the median of its rounds; its reference is measured
between them. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.progress import Progress

from benchmarks.figures import Figure, show, write
from benchmarks.suites import FULL, QUICK, SUITES


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    given = parser.parse_args()
    unknown = [name for name in given.suites if name not in SUITES]
    if unknown:
        parser.error(f"{unknown[0]!r} is not one of {', '.join(SUITES)}")
    effort = QUICK if given.quick else FULL
    console = Console()
    figures: list[Figure] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("benchmarks", total=len(given.suites or SUITES))
        for name in given.suites or SUITES:
            progress.update(task, description=name)
            for figure in SUITES[name](effort):
                figures.append(figure)
                progress.console.print(f"{figure.name}: {figure.value:.4g} {figure.unit}")
            progress.advance(task)
    show(console, figures)
    write(figures)


if __name__ == "__main__":
    main()
