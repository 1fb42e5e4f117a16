"""One run: a cluster with clients, a phase of faults, the recovery, and the checks of all guarantees."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.cluster import transactions
from tests.sim.cluster.clients import LoadConsumer, LoadProducer, read_everything
from tests.sim.cluster.coverage import Pair
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.group import CONSUMER_SESSION, GroupLedger, GroupMember
from tests.sim.cluster.invariants import Invariants
from tests.sim.cluster.ledger import Ledger, check_order
from tests.sim.cluster.observer import OffsetObserver, StableReader
from tests.sim.cluster.plan import Plan, plan_of
from tests.sim.cluster.replica_logs import equal_logs
from tests.sim.cluster.replication import is_fully_replicated
from tests.sim.cluster.rest import check_at_rest
from tests.sim.cluster.states import has_open_transactions
from tests.sim.cluster.topics import TOPIC, create_topic
from tests.sim.cluster.transactions import TransactionalProducer, TransactionLedger
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.registry import CREATE_WORKLOAD
from tests.sim.cluster.workloads.workload import Client
from tidelog.clients.admin.admin import NewTopic
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.scheduler import MS
from tidelog.testing.simulation.simulation import Simulation

NODE_CONFIG = {
    **CONSUMER_SESSION,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}
CHECK_EVERY_NS = 100 * MS
LOOK_EVERY_S = 0.1
"""The interval at which slow conditions are evaluated."""
RECOVERY_S_MAX = 60.0
"""The longest unavailability after the last fault."""
SETTLE_S = 1.0
"""The time after which followers have the last records, and no request of a client waits."""
TRANSACTIONS_END_S = 40.0
"""The time within which a transaction without an end is aborted."""


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
    recovery_s: float
    """The time from the last fault until all replicas were in sync and records were acknowledged."""
    faults: dict[str, int]
    pairs: dict[Pair, int]
    """How often each fault has happened in each state of the cluster."""


class Run:
    """One run of a plan."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan or plan_of(seed)
        self.simulation = Simulation(
            seed,
            nodes=self.plan.nodes,
            config={**NODE_CONFIG, **self.plan.config},
            features=self.plan.features,
            voters_may_change="voters" in self.plan.workloads,
        )
        self.ledger = Ledger()
        self.transactions = TransactionLedger()
        self.group = GroupLedger()
        self._checker: Process
        self._stable_reader: StableReader
        self._invariants = Invariants(self.simulation.cluster, (TOPIC, transactions.TOPIC))

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
            recovery_s = self._require_recovery()
            # Without load, the checks of the workloads take less of the machine's time.
            self._stop(producers)
            for workload in workloads:
                workload.check()
            repeated = self._check_records()
            self._stop(readers)
            self._check_transactions()
            simulation.run_for(SETTLE_S)
            fetchers = int(plan.config.get("num.replica.fetchers", "1"))
            check_at_rest(simulation.cluster, fetchers, is_tiered="tiering" in plan.workloads)
        return Outcome(
            self.seed, simulation.trace.digest(), simulation.now_s, simulation.scheduler.event_count,
            self.ledger.sent, len(self.ledger.acknowledged), repeated, recovery_s, dict(faults.counts),
            dict(faults.coverage.counts),
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
        readers: list[Client] = [
            LoadConsumer(simulation, plan, ledger, "consumer", TOPIC),
            OffsetObserver(simulation, plan, self.group, TOPIC),
        ]
        if plan.transactional_producers:
            self._stable_reader = StableReader(simulation, plan)
            readers.append(self._stable_reader)
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
            simulation.run_until(
                lambda: self.group.has_processed(final), plan.liveness_s, every_s=LOOK_EVERY_S
            )
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
        if not simulation.run_until(
            lambda: not has_open_transactions(simulation.cluster), TRANSACTIONS_END_S, every_s=LOOK_EVERY_S
        ):
            raise simulation.failure(
                f"a transaction is open {TRANSACTIONS_END_S:g} s after its producer ended"
            )
        servers, count = simulation.cluster.bootstrap_servers, plan.partitions
        committed, everything = (
            simulation.run(
                self._checker, read_everything(self._checker, servers, transactions.TOPIC, count, isolation)
            )
            for isolation in ("read_committed", "read_uncommitted")
        )
        self.transactions.check(committed)
        self._stable_reader.check(committed)
        for partition, values in everything.items():
            equal_logs(simulation.cluster, partition)
            if not committed[partition].items() <= values.items():
                raise Violation(f"{partition}: records with read_committed differ from read_uncommitted")

    def _check_continuously(self) -> None:
        self._invariants.check()
        self.simulation.scheduler.after(CHECK_EVERY_NS, self._check_continuously)

    def _require_recovery(self) -> float:
        """Wait until all replicas are in sync and records are acknowledged; return how long it took."""
        start_s = self.simulation.now_s
        simulation, limit_s = self.simulation, RECOVERY_S_MAX
        if not simulation.run_until(
            lambda: is_fully_replicated(simulation.cluster), limit_s, every_s=LOOK_EVERY_S
        ):
            raise simulation.failure(f"not all replicas are in sync {limit_s:g} s after the last fault")
        before = len(self.ledger.acknowledged)
        if not simulation.run_until(lambda: len(self.ledger.acknowledged) > before + 20, limit_s):
            raise simulation.failure(f"no records are acknowledged {limit_s:g} s after the recovery")
        return simulation.now_s - start_s


def run_seed(seed: int, plan: Plan | None = None) -> Outcome:
    """Run one seed. Errors: Violation with the seed."""
    try:
        return Run(seed, plan).execute()
    except Exception as error:
        raise Violation(f"seed {seed}: {error!r}") from error
