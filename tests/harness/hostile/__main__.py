"""`python -m tests.harness.hostile [names]`: attack a broker in every known way, and print the effects.

Names select attacks: a name, its beginning, or the number of an item. The exit code is 1 if the broker
ended, leaked, or used too much memory; with --strict also if a goal for times was missed.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attacks import ATTACKS
from tests.harness.hostile.report import (
    RESULTS,
    WIDTH_OF_FILES,
    print_progress,
    print_report,
    write_json,
    write_table,
)
from tests.harness.hostile.report_rows import Row
from tests.harness.hostile.run import LONG, SHORT, Effort, run_alone

EXIT_TERMINATED: Final = 143


def select_attacks(names: Sequence[str]) -> list[Attack]:
    """Return the attacks that `names` select; all if there are no names."""
    if not names:
        return list(ATTACKS)
    attacks = [a for a in ATTACKS if any(a.name.startswith(name) or a.item == name for name in names)]
    if not attacks:
        names_of_attacks = ", ".join(attack.name for attack in ATTACKS)
        raise SystemExit(f"unknown attack: {' or '.join(names)}; allowed are: {names_of_attacks}")
    return attacks


def attack_all(attacks: Sequence[Attack], effort: Effort, console: Console) -> list[Row]:
    """Run each attack against a separate broker, with a progress bar."""
    rows = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("hostile clients", total=len(attacks))
        for attack in attacks:
            progress.update(task, description=attack.name)
            row = run_alone(attack, effort)
            rows.append(row)
            progress.advance(task)
            print_progress(progress.console, row)
    return rows


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", help="attacks or items; default: all")
    parser.add_argument("--seconds", type=float, default=LONG.seconds, help="duration of each attack")
    parser.add_argument("--short", action="store_true", help="use the sizes of the short form")
    parser.add_argument("--strict", action="store_true", help="fail also when a goal for times is missed")
    parser.add_argument(
        "--json",
        type=Path,
        default=RESULTS,
        help="file for the figures; the table is in the same file as .txt",
    )
    parser.add_argument("--list", action="store_true", help="list the attacks")
    arguments = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_FILES)
    attacks = select_attacks(arguments.names)
    if arguments.list:
        for attack in attacks:
            console.print(f"{attack.name:40} {attack.item:7} {attack.actions}", highlight=False, markup=False)
        return 0
    # A signal that ends this process also ends the broker.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    # The attacker, too, needs thousands of sockets.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    effort = SHORT if arguments.short else replace(LONG, seconds=arguments.seconds)
    rows = attack_all(attacks, effort, console)
    print_report(console, rows)
    write_json(arguments.json, rows, effort)
    write_table(arguments.json.with_suffix(".txt"), rows)
    has_failures = any(row.failures or (arguments.strict and row.misses) for row in rows)
    return 1 if has_failures else 0


if __name__ == "__main__":
    sys.exit(main())
