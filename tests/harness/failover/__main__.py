"""`python -m tests.harness.failover`: three nodes under load and faults; exit code 1 for a violation."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.harness.failover import firewall
from tests.harness.failover.faults import NETWORK_FAULTS, FaultKind
from tests.harness.failover.run import FailoverRun, Options, Outcome, figures
from tests.harness.soak.checker import Anomaly
from tests.support.paths import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def table_of(outcome: Outcome, kinds: tuple[FaultKind, ...]) -> Table:
    """Return the figures as a table."""
    findings = outcome.findings
    table = Table("figure", "value", title="Failover")
    rows = {
        "run, s": f"{outcome.elapsed_s:.0f}",
        "faults": f"{len(outcome.faults)}",
        "records acknowledged": f"{findings.acknowledged:,}",
        "records given up by their producer": f"{findings.unknown:,}",
        "records in the log": f"{findings.in_log:,}",
        "records read": f"{findings.polled:,}",
        "commits acknowledged": f"{findings.commits:,}",
        "records accepted by the share group": f"{findings.accepted:,}",
    }
    if outcome.words_counted is not None:
        rows["words counted by Kafka Streams"] = f"{outcome.words_counted:,}"
    for kind in kinds:
        durations_s = outcome.new_leader_times_s(kind)
        if durations_s:
            rows[f"{kind.name}: new leaders after, s, median / maximum"] = (
                f"{durations_s[len(durations_s) // 2]:.2f} / {durations_s[-1]:.2f}"
            )
    for name, value in rows.items():
        table.add_row(name, value)
    for anomaly in Anomaly:
        table.add_row(anomaly.value, str(findings.counts[anomaly]))
    return table


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.failover", description=__doc__)
    defaults = Options()
    names = [kind.name.lower() for kind in FaultKind]
    parser.add_argument(
        "--seconds", type=float, default=defaults.seconds, help="duration of the load with faults"
    )
    parser.add_argument("--rate", type=float, default=defaults.rate, help="records a second per producer")
    parser.add_argument("--seed", type=int, default=defaults.seed, help="seed of the order of faults")
    parser.add_argument("--secure", action="store_true", help="SASL_SSL on every listener, and an authorizer")
    parser.add_argument(
        "--kafka-jars",
        metavar="FOLDER",
        type=Path,
        help="folder with the jars of Apache Kafka: also run an application of Kafka Streams",
    )
    parser.add_argument("--keep", metavar="FOLDER", help="leave data, logs and history here")
    parser.add_argument("kinds", nargs="*", choices=[[], *names], help="kinds of faults; default: all")
    arguments = parser.parse_args()
    kinds = tuple(FaultKind[name.upper()] for name in arguments.kinds) or tuple(FaultKind)
    console = Console()
    if NETWORK_FAULTS & set(kinds) and (reason := firewall.reason_not_available()) is not None:
        console.print(f"SKIPPED: isolation of nodes: {reason}", style="yellow")
        kinds = tuple(kind for kind in kinds if kind not in NETWORK_FAULTS)
    options = Options(
        seconds=arguments.seconds,
        rate=arguments.rate,
        seed=arguments.seed,
        kinds=kinds,
        is_secured=arguments.secure,
        kafka_jars=arguments.kafka_jars,
    )
    # Log lines of clients about stopped brokers are expected, and not shown.
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="tidelog-failover-") as temporary:
        folder = Path(arguments.keep or temporary)
        folder.mkdir(exist_ok=True)
        run = FailoverRun(options, folder, lambda text: console.print(text, highlight=False))
        outcome = asyncio.run(run.run())
    console.print(table_of(outcome, kinds))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "failover.json").write_text(figures(outcome, kinds) + "\n")
    for problem in outcome.problems:
        console.print(problem, style="red", highlight=False)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
