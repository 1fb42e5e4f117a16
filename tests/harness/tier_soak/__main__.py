"""`python -m tests.harness.tier_soak`: S3 faults, outages, kill -9; exit code 1 for a problem."""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.harness.tier_soak.run import Options, Outcome, TierSoak
from tests.support.paths import ROOT

RESULTS = ROOT / "benchmarks" / "results"
MEGA = 1e6


def figures(outcome: Outcome) -> dict[str, str]:
    """Return the figures as a table."""
    creation_times_s = outcome.topics_created_s or [0.0]
    return {
        "run, s": f"{outcome.elapsed_s:.0f}",
        "records acknowledged": f"{outcome.acknowledged:,}",
        "tiered, MB": f"{outcome.tiered_bytes / MEGA:.0f}",
        "segments": f"{outcome.segments:,}",
        "backups of the cluster": f"{outcome.backups}",
        "read and compared, MB": f"{outcome.read_bytes / MEGA:.0f}",
        "requests to the store": f"{outcome.requests:,}",
        "faults of single requests": f"{sum(outcome.faults.values()):,}",
        "  by kind": ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.faults.items())),
        "outages": f"{outcome.outages}",
        "kill -9": f"{outcome.kills}",
        "topics created, s, median / maximum": (
            f"{statistics.median(creation_times_s):.2f} / {max(creation_times_s):.2f}"
        ),
        "largest backlog, MB": f"{outcome.largest_backlog_bytes / MEGA:.0f}",
        "backlog copied after, s": f"{outcome.drain_s:.1f}",
        "errors reported to readers": f"{outcome.read_errors}",
        "records of the compacted topic, written / remaining": (
            f"{outcome.compacted_records:,} / {outcome.retained_records:,}"
        ),
        "records of the mounted topic": f"{outcome.mounted_records:,}",
        "damaged and repaired segments": f"{outcome.repaired_segments}",
        "problems": f"{len(outcome.problems)}",
    }


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.tier_soak", description=__doc__)
    defaults = Options()
    parser.add_argument("--megabytes", type=float, default=defaults.total_bytes / MEGA, help="MB to tier")
    parser.add_argument(
        "--faults", type=int, default=defaults.faults_min, help="minimum number of faults of requests"
    )
    parser.add_argument(
        "--rate", type=float, default=defaults.bytes_per_s / MEGA, help="MB per second that are written"
    )
    parser.add_argument("--kill-every", type=float, default=defaults.kill_every_s, help="seconds")
    parser.add_argument("--seed", type=int, default=defaults.seed, help="seed of faults and kills")
    parser.add_argument("--keep", metavar="FOLDER", help="leave data and logs here")
    arguments = parser.parse_args()
    options = Options(
        total_bytes=int(arguments.megabytes * MEGA),
        faults_min=arguments.faults,
        bytes_per_s=arguments.rate * MEGA,
        kill_every_s=arguments.kill_every,
        seed=arguments.seed,
    )
    console = Console()
    logging.disable(logging.ERROR)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-tier-soak-") as temporary,
        Progress(*columns, console=console, transient=True) as bar,
    ):
        folder = Path(arguments.keep or temporary)
        folder.mkdir(exist_ok=True)
        task = bar.add_task("starting", total=None)
        outcome = TierSoak(
            options,
            folder,
            lambda what, done, of: bar.update(task, description=what, completed=done, total=of or None),
        ).run()
    table = Table("figure", "value", title="Soak of tiered storage")
    for name, value in figures(outcome).items():
        table.add_row(name, value)
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tier_soak.json").write_text(json.dumps(asdict(outcome), indent=2) + "\n")
    for problem in outcome.problems:
        console.print(problem, style="red", highlight=False)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
