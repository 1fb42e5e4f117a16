"""`python -m tests.harness.failover.copying`: exactly once while nodes are killed, stopped and paused.

Three nodes in separate processes. Two copiers, which use Tidelog's clients, consume, transform and produce
in transactions. Every fifth of their transactions fails deliberately. A killed node returns before the next
one fails.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from tests.harness.failover.observer import ClusterObserver
from tests.harness.failover.secured import allow_load, create_cluster
from tests.harness.soak.copies import PARTITIONS, SOURCE, TARGET, Copies
from tidelog.clients.admin.admin import Admin, NewTopic
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.local_cluster.cluster import LocalCluster
from tidelog.local_cluster.layout import QUICK_TIMEOUTS
from tidelog.protocol.errors import KafkaError

_NODES = 3
_QUIET_S = 3.0
_PAUSE_S = 8.0
_IN_SYNC_WITHIN_S = 60.0
_COMPLETE_WITHIN_S = 600.0


async def main() -> int:
    """Run the copiers; return 0 if there is no violation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="number of records to copy")
    parser.add_argument("--faults", type=int, default=15, help="number of node failures, one at a time")
    parser.add_argument(
        "--per-transaction", type=int, default=750, help="maximum number of records in a transaction"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice of nodes and faults")
    parser.add_argument("--secure", action="store_true", help="SASL_SSL on every listener, and an authorizer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidelog-copying-") as folder:
        cluster = create_cluster(Path(folder) / "cluster", _NODES, QUICK_TIMEOUTS, is_secured=options.secure)
        try:
            await asyncio.to_thread(cluster.start)
            problems = await _copy(cluster, options, await allow_load(cluster))
        finally:
            for node in cluster.nodes.values():
                node.kill()
    print("\n".join(problems) or f"{options.records} records were copied exactly once")
    return 1 if problems else 0


async def _copy(cluster: LocalCluster, options: argparse.Namespace, clients: ClientSettings) -> list[str]:
    async with Admin(**cluster.node_client_settings().tidelog) as admin:
        topics = [
            NewTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=_NODES,
                configs={"min.insync.replicas": "2"},
            )
            for name in (SOURCE, TARGET)
        ]
        for result in (await admin.create_topics(topics)).values():
            if isinstance(result, KafkaError):
                raise result
    copies = Copies(
        clients,
        options.records,
        at_a_time=max(1, options.records // 10_000),
        pause_s=0.01,
        records_per_transaction=options.per_transaction,
    )
    faults = _fail_nodes(cluster, options.faults, random.Random(options.seed))
    return await copies.run_during(faults, _COMPLETE_WITHIN_S)


async def _fail_nodes(cluster: LocalCluster, count: int, rng: random.Random) -> None:
    """Kill, stop or pause one node after another, and restart it."""
    observer = ClusterObserver(cluster, TARGET)
    for _ in range(count):
        await asyncio.sleep(_QUIET_S)
        node_id, kind = rng.choice(sorted(cluster.nodes)), rng.choice(("kill", "stop", "pause"))
        start_s = time.monotonic()
        node = cluster.nodes[node_id]
        if kind == "pause":
            node.pause()
            await asyncio.sleep(_PAUSE_S)
            node.resume()
        else:
            if kind == "kill":
                cluster.kill(node_id)
            else:
                await asyncio.to_thread(cluster.stop, [node_id])
            await asyncio.to_thread(cluster.start, [node_id])
        await observer.wait_until_in_sync(_IN_SYNC_WITHIN_S)
        print(
            f"{kind} of node {node_id}: all replicas in sync after {time.monotonic() - start_s:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
