"""Runs seeds: `python -m tests.sim.cluster.run --seeds 1000` or `--seed 7` with its timeline."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.sim.cluster import transactions
from tests.sim.cluster.clients import LoadConsumer, LoadProducer, read_everything
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.group import GroupLedger, GroupMember
from tests.sim.cluster.invariants import Invariants
from tests.sim.cluster.ledger import Ledger, check_order
from tests.sim.cluster.plan import Plan, plan_of
from tests.sim.cluster.replica_logs import equal_logs
from tests.sim.cluster.replication import is_fully_replicated
from tests.sim.cluster.topics import TOPIC, create_topic
from tests.sim.cluster.transactions import TransactionalProducer, TransactionLedger
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.registry import CREATE_WORKLOAD
from tests.sim.cluster.workloads.workload import Client
from tidelog.clients.admin.admin import NewTopic
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.scheduler import MS
from tidelog.testing.simulation.simulation import Simulation

CHECK_EVERY_NS = 100 * MS
SETTLE_S = 3.0
TRANSACTIONS_END_S = 40.0
"""The time after which a transaction without an end has been aborted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run did. Equal runs have equal digests."""

    seed: int
    digest: str
    simulated_s: float
    events: int
    sent: int
    acknowledged: int
    repeated: int
    """The records that a producer has written again in its next epoch."""
    faults: dict[str, int]


class Run:
    """One run of a plan."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan or plan_of(seed)
        self.simulation = Simulation(
            seed,
            nodes=self.plan.nodes,
            config=self.plan.config,
            features=self.plan.features,
            voters_may_change="voters" in self.plan.workloads,
        )
        self.ledger = Ledger()
        self.transactions = TransactionLedger()
        self.group = GroupLedger()
        self._checker: Process
        self._invariants = Invariants(self.simulation.cluster)

    def execute(self) -> Outcome:
        """Run all phases. Errors: AssertionError with the seed."""
        simulation, plan = self.simulation, self.plan
        with simulation:
            self._checker = simulation.cluster.client("checker")
            for topic in (TOPIC, transactions.TOPIC):
                new = NewTopic(name=topic, num_partitions=plan.partitions, configs=plan.topic_config)
                creation = create_topic(self._checker, simulation.cluster.bootstrap_servers, new)
                simulation.run(self._checker, creation)
            self._check_continuously()
            producers, readers = self._start_clients()
            workloads = [CREATE_WORKLOAD[name](simulation, plan) for name in plan.workloads]
            for workload in workloads:
                workload.start()
            faults = Faults(simulation, plan)
            simulation.run_for(plan.safety_s)
            faults.stop()
            simulation.trace.note("faults", "all faults have ended")
            self._stop([client for workload in workloads for client in workload.clients])
            self._require_recovery()
            for workload in workloads:
                workload.check()
            self._stop(producers)
            repeated = self._check_records()
            self._stop(readers)
            self._check_transactions()
        return Outcome(
            self.seed, simulation.trace.digest(), simulation.now_s, simulation.scheduler.event_count,
            self.ledger.sent, len(self.ledger.acknowledged), repeated, dict(faults.counts),
        )  # fmt: skip

    def _start_clients(self) -> tuple[list[Client], list[Client]]:
        """Start and return the producers, and the consumers."""
        simulation, plan, ledger = self.simulation, self.plan, self.ledger
        producers: list[Client] = [
            LoadProducer(simulation, plan, ledger, f"p{number}", TOPIC) for number in range(plan.producers)
        ]
        producers += [
            TransactionalProducer(simulation, plan, self.transactions, f"t{number}")
            for number in range(plan.transactional_producers)
        ]
        readers: list[Client] = [LoadConsumer(simulation, plan, ledger, "consumer", TOPIC)]
        readers += [
            GroupMember(simulation, plan, self.group, f"g{number}", TOPIC)
            for number in range(plan.group_members)
        ]
        return producers, readers

    def _stop(self, clients: list[Client]) -> None:
        """Stop clients. Errors: SimulationFailure if one does not end; their errors."""
        simulation = self.simulation
        for client in clients:
            client.is_stopped = True
        if not simulation.run_until(lambda: all(each.task.done() for each in clients), self.plan.liveness_s):
            raise simulation.failure(f"a client has not ended after {self.plan.liveness_s:g} s")
        for client in clients:
            client.task.result()

    def _check_records(self) -> int:
        """Read all records and compare them with the history; return the number of repeated ones."""
        simulation, plan = self.simulation, self.plan
        servers = simulation.cluster.bootstrap_servers
        final = simulation.run(self._checker, read_everything(self._checker, servers, TOPIC, plan.partitions))
        self.ledger.check_complete(final)
        if plan.group_members:
            simulation.run_until(lambda: self.group.has_processed(final), plan.liveness_s)
            self.group.check(final)
        simulation.run_for(SETTLE_S)
        return sum(
            check_order(partition, values, equal_logs(simulation.cluster, partition))
            for partition, values in final.items()
        )

    def _check_transactions(self) -> None:
        """Read what is committed, when the transactions without an end have timed out, and compare it."""
        simulation, plan = self.simulation, self.plan
        if not plan.transactional_producers:
            return
        simulation.run_for(TRANSACTIONS_END_S)
        servers, count = simulation.cluster.bootstrap_servers, plan.partitions
        committed, everything = (
            simulation.run(
                self._checker, read_everything(self._checker, servers, transactions.TOPIC, count, isolation)
            )
            for isolation in ("read_committed", "read_uncommitted")
        )
        self.transactions.check(committed)
        for partition, values in everything.items():
            equal_logs(simulation.cluster, partition)
            if not committed[partition].items() <= values.items():
                raise Violation(f"{partition}: records with read_committed differ from read_uncommitted")

    def _check_continuously(self) -> None:
        self._invariants.check()
        self.simulation.scheduler.after(CHECK_EVERY_NS, self._check_continuously)

    def _require_recovery(self) -> None:
        """Wait until all replicas are in sync again, and further records are acknowledged."""
        simulation, limit_s = self.simulation, self.plan.liveness_s
        if not simulation.run_until(lambda: is_fully_replicated(simulation.cluster), limit_s):
            raise simulation.failure(f"not all replicas are in sync {limit_s:g} s after the last fault")
        before = len(self.ledger.acknowledged)
        if not simulation.run_until(lambda: len(self.ledger.acknowledged) > before + 20, limit_s):
            raise simulation.failure(f"no records are acknowledged {limit_s:g} s after the recovery")


def run_seed(seed: int, plan: Plan | None = None) -> Outcome:
    """Run one seed. Errors: AssertionError with the command that replays it."""
    run = Run(seed, plan)
    try:
        return run.execute()
    except Exception as error:
        text = f"seed {seed}: {error!r}\nreplay: python -m tests.sim.cluster.run --seed {seed}"
        raise Violation(text) from error


def _attempt(seed: int) -> tuple[int, Outcome | str]:
    try:
        return seed, run_seed(seed)
    except AssertionError as error:
        return seed, str(error)


def run_seeds(first: int, count: int, workers: int) -> Iterator[tuple[int, Outcome | str]]:
    """Yield the outcome of each seed, or the text of its failure."""
    if workers == 1:
        yield from map(_attempt, range(first, first + count))
        return
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(_attempt, range(first, first + count))


def _replay(seed: int) -> int:
    run = Run(seed)
    print(run.plan)
    try:
        print(run.execute())
        status = 0
    except Exception as error:
        status = 1
        print(f"{error!r}")
    for line in run.simulation.trace.timeline:
        print(line)
    return status


def main() -> int:
    """Run the seeds of the command line; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed, and print its timeline")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.seed is not None:
        return _replay(options.seed)
    started, failed = time.perf_counter(), 0
    simulated_s, events, acknowledged, faults = 0.0, 0, 0, Counter[str]()
    for seed, outcome in run_seeds(options.first, options.seeds, options.workers):
        if isinstance(outcome, str):
            failed += 1
            print(f"FAILED {outcome}\n", flush=True)
            continue
        del seed
        simulated_s += outcome.simulated_s
        events += outcome.events
        acknowledged += outcome.acknowledged
        faults.update(outcome.faults)
    elapsed_s = time.perf_counter() - started
    per_minute = options.seeds / elapsed_s * 60
    print(f"{options.seeds} seeds, {failed} failed, {elapsed_s:.0f} s, {per_minute:.0f} per minute")
    print(
        f"{simulated_s / 3600:.2f} simulated hours, {simulated_s / elapsed_s:.0f} times real time, "
        f"{events / elapsed_s:.0f} events per second, {acknowledged} records acknowledged"
    )
    print(", ".join(f"{count} {name}" for name, count in sorted(faults.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
