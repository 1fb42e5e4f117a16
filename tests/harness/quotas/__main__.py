"""`python -m tests.harness.quotas`: rates of librdkafka under quotas; exit code 1 if one is off by 10 %."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from tests.harness.quotas.rates import consume, produce, set_quotas
from tidelog.testing.embedded import EmbeddedCluster

TOLERANCE = 0.1
WARM_UP_S = 12
"""Longer than all windows together: a client may begin with the bytes of ten windows at once."""


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.quotas", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="duration of each measurement")
    parser.add_argument("--rate", type=int, default=2**20, help="the quota in bytes per second")
    arguments = parser.parse_args()
    table = Table(title=f"Rates under a quota of {arguments.rate:,} bytes per second")
    for name in ("quota", "sustained", "of the quota", "average", "throttle events"):
        table.add_column(name, justify="right")
    is_accurate = True
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        produce(servers, "read", 600, max_bytes=int(arguments.rate * (arguments.seconds + 2 * WARM_UP_S)))
        for key, measure, topic in (
            ("producer_byte_rate", produce, "written"),
            ("consumer_byte_rate", consume, "read"),
        ):
            set_quotas(servers, {key: arguments.rate})
            throughput = measure(servers, topic, arguments.seconds, warm_up_s=WARM_UP_S)
            ratio = throughput.sustained_rate / arguments.rate
            is_accurate = is_accurate and abs(ratio - 1) <= TOLERANCE
            table.add_row(
                key,
                f"{throughput.sustained_rate:,.0f}",
                f"{ratio:.3f}",
                f"{throughput.rate:,.0f}",
                str(len(throughput.throttle_times_s)),
            )
            set_quotas(servers, {key: None})
    Console().print(table)
    return 0 if is_accurate else 1


if __name__ == "__main__":
    sys.exit(main())
