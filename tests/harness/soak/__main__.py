"""`python -m tests.harness.soak`: load with kill -9; exit code 1 for a violation."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.harness.soak.broker import UnexpectedExitError
from tests.harness.soak.checker import Anomaly
from tests.harness.soak.run import MEBIBYTE, Options, Outcome, SoakRun, as_json
from tests.support.paths import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def table_of(outcome: Outcome) -> Table:
    """Return the figures as a table."""
    findings = outcome.findings
    table = Table(title="Soak")
    table.add_column("figure")
    table.add_column("value", justify="right")
    rows = {
        "run, s": f"{outcome.elapsed_s:.0f}",
        "kill -9": f"{findings.kills}",
        "slowest start, s": f"{max(outcome.start_seconds):.2f}",
        "records sent": f"{findings.sent:,}",
        "records acknowledged": f"{findings.acknowledged:,}",
        "records given up by their producer": f"{findings.unknown:,}",
        "records in the log": f"{findings.in_log:,}",
        "records read": f"{findings.polled:,}",
        "commits acknowledged": f"{findings.commits:,}",
        "records accepted by the share group": f"{findings.accepted:,}",
        "resident memory, most, MiB": f"{outcome.peak_bytes / MEBIBYTE:.0f}",
        "growth within the last start, MiB/min": f"{outcome.growth_quiet / MEBIBYTE:.2f}",
        "growth from start to start, MiB/min": f"{outcome.growth_over_starts / MEBIBYTE:.2f}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    for anomaly in Anomaly:
        table.add_row(anomaly.value, str(findings.counts[anomaly]))
    return table


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.soak", description=__doc__)
    defaults = Options()
    parser.add_argument(
        "--seconds", type=float, default=defaults.seconds, help="duration of the load with kills"
    )
    parser.add_argument(
        "--kill-every", type=float, default=defaults.kill_every_s, help="seconds between kills"
    )
    parser.add_argument("--quiet", type=float, default=None, help="seconds of load after the last kill")
    parser.add_argument("--rate", type=float, default=defaults.rate, help="records a second per producer")
    arguments = parser.parse_args()
    quiet_s = arguments.seconds / 5 if arguments.quiet is None else arguments.quiet
    options = Options(arguments.seconds, arguments.kill_every, quiet_s, arguments.rate)
    console = Console()
    # Log lines of clients about a killed broker are expected, and not shown.
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="tidelog-soak-") as directory:
        run = SoakRun(options, Path(directory), lambda text: console.print(text, highlight=False))
        try:
            outcome = asyncio.run(run.run())
        except UnexpectedExitError as error:
            console.print(f"the broker ended by itself: {error}", style="red")
            return 1
    console.print(table_of(outcome))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "soak.json").write_text(as_json(outcome, options) + "\n")
    for problem in outcome.problems:
        console.print(problem, style="red", highlight=False)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
