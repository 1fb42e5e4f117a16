"""One failover run: the mixed load, faults one after the other, and the result of the checker.

start 3 nodes -> load -> [ fault -> new leaders? -> repair -> all in sync? ] ... -> final reading
-> clean stop -> replicas equal? -> result
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.harness.failover.faults import NETWORK_FAULTS, Fault, FaultKind, Faults, Target, schedule
from tests.harness.failover.firewall import Firewall
from tests.harness.failover.observer import ClusterObserver
from tests.harness.failover.replicas import find_differences
from tests.harness.failover.secured import allow_load, create_cluster
from tests.harness.failover.streams import BROKER_SETTINGS as STREAMS_SETTINGS
from tests.harness.failover.streams import StreamsLoad
from tests.harness.soak import share_members
from tests.harness.soak.checker import Findings, check
from tests.harness.soak.history import History, read_history
from tests.harness.soak.load import MixedLoad
from tidelog.clients.admin.admin import Admin
from tidelog.local_cluster.layout import QUICK_TIMEOUTS

TOPIC: Final = "failover"
NODES: Final = 3
TOPIC_CONFIG: Final = {"segment.bytes": str(16 << 20), "min.insync.replicas": "2"}
FIRST_HOST: Final = 11

SETTINGS: Final = {
    **QUICK_TIMEOUTS,
    # Separate processes detect failures of each other sooner than nodes that share a loop.
    "controller.quorum.fetch.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    **share_members.BROKER_SETTINGS,
    **STREAMS_SETTINGS,
    "leader.imbalance.check.interval.seconds": "10",
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run; `rate` is records per second of each of the six producers.

    With `kafka_jars`, the folder with the jars of Apache Kafka, an application of Kafka Streams runs, too.
    """

    seconds: float = 300.0
    rate: float = 100.0
    partitions: int = 6
    kinds: tuple[FaultKind, ...] = tuple(FaultKind)
    seed: int = 1
    fault_s_min: float = 1.0
    fault_s_max: float = 6.0
    in_sync_within_s: float = 60.0
    new_leaders_within_s: float = 20.0
    is_secured: bool = False
    kafka_jars: Path | None = None


@dataclass(slots=True)
class FaultOutcome:
    """The effect of one fault; `new_leaders_s` is None if the fault ended before leaders had to move."""

    fault: Fault
    node_id: int
    new_leaders_s: float | None
    in_sync_s: float


@dataclass(slots=True)
class Outcome:
    """The result of a run; `words_counted` is None without an application of Kafka Streams."""

    findings: Findings
    faults: list[FaultOutcome]
    elapsed_s: float
    words_counted: int | None = None
    problems: list[str] = field(default_factory=list)

    def new_leader_times_s(self, *kinds: FaultKind) -> list[float]:
        """Return the times in which partitions of the node had no other leader, in ascending order."""
        return sorted(
            one.new_leaders_s
            for one in self.faults
            if one.new_leaders_s is not None and one.fault.kind in kinds
        )


Progress = Callable[[str], None]


class FailoverRun:
    """One run in `directory`, which must be empty."""

    def __init__(self, options: Options, directory: Path, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        needs_firewall = bool(NETWORK_FAULTS & set(options.kinds))
        hosts = [f"127.0.0.{FIRST_HOST + index}" for index in range(NODES)] if needs_firewall else []
        self.cluster = create_cluster(
            directory / "cluster", NODES, SETTINGS, is_secured=options.is_secured, hosts=hosts
        )
        self._history = History(directory / "history.jsonl")
        self._observer = ClusterObserver(self.cluster, TOPIC)
        self._needs_firewall = needs_firewall
        self._streams: StreamsLoad | None = None
        if options.kafka_jars is not None:
            settings = self.cluster.node_client_settings()
            self._streams = StreamsLoad(settings, options.kafka_jars, directory / "streams")
        self._outcomes: list[FaultOutcome] = []
        self._problems: list[str] = []

    async def run(self) -> Outcome:
        """Run; raise TimeoutError if the cluster does not recover from a fault by itself."""
        start_s = time.monotonic()
        options, cluster = self._options, self.cluster
        with ExitStack() as stack:
            firewall = stack.enter_context(Firewall()) if self._needs_firewall else None
            stack.callback(self._kill_all_nodes)
            seconds = await asyncio.to_thread(cluster.start)
            self._progress(f"{NODES} nodes ready after {seconds:.1f} s")
            await self._create_topic()
            load = MixedLoad(
                await allow_load(cluster),
                TOPIC,
                self._history,
                rate=options.rate,
                partitions=options.partitions,
            )
            work = self._inject_faults(Faults(cluster, firewall))
            if self._streams is not None:
                stack.callback(self._streams.kill)
                work = self._streams.run_during(work)
            await load.run_during(work)
            self._progress("reading all records")
            await load.read_everything()
            if self._streams is not None:
                self._progress("waiting until all words are counted")
                self._problems += await self._streams.finish()
            await self._observer.wait_until_in_sync(options.in_sync_within_s)
            await asyncio.to_thread(cluster.stop)
        self._history.close()
        outcome = Outcome(
            check(read_history(self._history.path)),
            self._outcomes,
            time.monotonic() - start_s,
            None if self._streams is None else self._streams.counted,
        )
        outcome.problems += self._problems + self._find_problems(outcome.findings)
        return outcome

    def _find_problems(self, findings: Findings) -> list[str]:
        folders = [self.cluster.layout.data_folder(node) for node in self.cluster.nodes]
        problems = [f"{each.anomaly.value}: {each.text}" for each in findings.violations]
        problems += [
            f"replicas differ: {line}" for line in find_differences(folders, TOPIC, self._options.partitions)
        ]
        if 0 in (findings.acknowledged, findings.accepted, findings.commits):
            problems.append("nothing was acknowledged, accepted or committed")
        return problems

    async def _create_topic(self) -> None:
        async with Admin(**self.cluster.node_client_settings().tidelog) as admin:
            await admin.create_topic(TOPIC, self._options.partitions, NODES, configs=TOPIC_CONFIG)
            await share_members.configure_group(admin)
            if self._streams is not None:
                await self._streams.create_topics(admin)
        await self._observer.wait_until_in_sync(self._options.in_sync_within_s)

    async def _inject_faults(self, faults: Faults) -> None:
        options = self._options
        end = time.monotonic() + options.seconds
        await asyncio.sleep(2.0)
        for fault in schedule(
            options.seed,
            options.kinds,
            duration_s_min=options.fault_s_min,
            duration_s_max=options.fault_s_max,
        ):
            if time.monotonic() > end:
                return
            await self._inject(faults, fault)

    async def _inject(self, faults: Faults, fault: Fault) -> None:
        first = await self._choose_node(fault.target)
        nodes = [first]
        if fault.kind is FaultKind.ROLLING_RESTART:
            nodes += [node_id for node_id in self.cluster.nodes if node_id != first]
        for node_id in nodes:
            await self._inject_into_node(node_id, faults, fault)

    async def _inject_into_node(self, node_id: int, faults: Faults, fault: Fault) -> None:
        self._history.add(str(node_id), "kill" if fault.kind is FaultKind.KILL else "fault", "ok")
        start_s = time.monotonic()
        await asyncio.to_thread(faults.begin, fault.kind, node_id)
        new_leaders_s = None
        try:
            if self._moves_leaders(fault):
                await self._observer.wait_until_led_without(node_id, self._options.new_leaders_within_s)
                new_leaders_s = time.monotonic() - start_s
                await asyncio.sleep(max(0.0, fault.seconds - new_leaders_s))
            else:
                await asyncio.sleep(fault.seconds)
        except TimeoutError:
            self._problems.append(f"{fault.kind.name} of node {node_id}: its partitions have no other leader")
        finally:
            await asyncio.to_thread(faults.end, fault.kind, node_id)
        in_sync_s = await self._observer.wait_until_in_sync(self._options.in_sync_within_s)
        self._outcomes.append(FaultOutcome(fault, node_id, new_leaders_s, in_sync_s))
        leaders = "" if new_leaders_s is None else f"new leaders after {new_leaders_s:.2f} s, "
        self._progress(
            f"{len(self._outcomes):3} {fault.kind.name:20} node {node_id} ({fault.target.value}): {leaders}"
            f"all in sync {in_sync_s:.2f} s after its end"
        )

    @staticmethod
    def _moves_leaders(fault: Fault) -> bool:
        """Return whether leaders must move: only if a node is stopped or unreachable for some seconds."""
        if fault.kind in (FaultKind.KILL, FaultKind.RESTART, FaultKind.ROLLING_RESTART):
            return True
        return fault.kind is not FaultKind.INBOUND_LOSS and fault.seconds > 4.0

    async def _choose_node(self, target: Target) -> int:
        controller = await self._observer.controller()
        if target is Target.CONTROLLER and controller is not None:
            return controller
        topic_state = await self._observer.topic_state()
        leader_counts = Counter(topic_state.leaders.values() if topic_state is not None else ())
        others = [node for node in self.cluster.nodes if node != controller]
        # Alternating nodes if they lead equally many partitions.
        others = others[len(self._outcomes) % len(others) :] + others
        return max(others, key=lambda node: leader_counts[node])

    def _kill_all_nodes(self) -> None:
        for node in self.cluster.nodes.values():
            node.kill()


def figures(outcome: Outcome, kinds: Sequence[FaultKind]) -> str:
    """Return the figures of a run as JSON."""
    findings = outcome.findings
    return json.dumps(
        {
            "elapsed_s": round(outcome.elapsed_s),
            "faults": len(outcome.faults),
            "sent": findings.sent,
            "acknowledged": findings.acknowledged,
            "given_up": findings.unknown,
            "in_log": findings.in_log,
            "polled": findings.polled,
            "commits": findings.commits,
            "words_counted": outcome.words_counted,
            "new_leaders_s": {
                kind.name: [round(seconds, 3) for seconds in outcome.new_leader_times_s(kind)]
                for kind in kinds
            },
            "in_sync_s": sorted(round(one.in_sync_s, 3) for one in outcome.faults),
            "problems": outcome.problems,
        },
        indent=2,
    )
