"""`python -m tests.harness.hostile [names]`: attack a broker in every known way, and print what that cost.

Names select attacks: a whole name, a beginning of one, or the number of an item. The exit code is 1 when the
broker died, leaked, or took too much memory, with --strict also when a goal for times was missed.
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
from tests.harness.hostile.judgement import Row
from tests.harness.hostile.report import RESULTS, print_progress, print_report, write_json
from tests.harness.hostile.run import LONG, SHORT, Effort, run_alone

WIDTH_OF_FILES: Final = 160
EXIT_TERMINATED: Final = 143


def selected(names: Sequence[str]) -> list[Attack]:
    """Return the attacks that `names` select, all when there are none."""
    if not names:
        return list(ATTACKS)
    found = [a for a in ATTACKS if any(a.name.startswith(name) or a.item == name for name in names)]
    if not found:
        known = ", ".join(attack.name for attack in ATTACKS)
        raise SystemExit(f"no attack is called {' or '.join(names)}; there are: {known}")
    return found


def attack_all(attacks: Sequence[Attack], effort: Effort, console: Console) -> list[Row]:
    """Run each attack against a broker of its own, with a progress bar."""
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
    """Run as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", help="attacks or items; all when there are none")
    parser.add_argument("--seconds", type=float, default=LONG.seconds, help="how long each attack lasts")
    parser.add_argument("--short", action="store_true", help="the sizes of the short form")
    parser.add_argument("--strict", action="store_true", help="fail also when a goal for times is missed")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures are written")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    given = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_FILES)
    attacks = selected(given.names)
    if given.list:
        for attack in attacks:
            console.print(f"{attack.name:40} {attack.item:7} {attack.does}", highlight=False, markup=False)
        return 0
    # Whoever ends this process ends the broker with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    # Thousands of sockets are the attacker's, too.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    effort = SHORT if given.short else replace(LONG, seconds=given.seconds)
    rows = attack_all(attacks, effort, console)
    print_report(console, rows)
    write_json(given.json, rows, effort)
    failed = any(row.failures or (given.strict and row.misses) for row in rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
