"""The faults of the safety phase, in an order and at times that the seed determines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.sim.cluster.coverage import Coverage
from tests.sim.cluster.disk_damage import damage
from tests.sim.cluster.operation_crashes import OperationCrashes, fail_power
from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import is_fully_replicated
from tests.sim.cluster.states import states_of
from tests.sim.cluster.store_faults import StoreKill, disturb
from tidelog.testing.simulation.cluster import SimulatedNode
from tidelog.testing.simulation.scheduler import MS, SECOND
from tidelog.testing.simulation.simulation import Simulation

RESTART_S = (0.1, 8.0)
CUT_S = (0.5, 8.0)
PAUSE_S = (0.1, 6.0)
CLOCK_BEHIND_MS_MAX = 3_590_000
"""Less than message.timestamp.after.max.ms, also with the drift: brokers further behind reject records."""
DRIFTS_PPM = (-100_000, -1_000, 1_000, 100_000)
ERROR_SHARES = (0.01, 0.2, 1.0)


class Faults:
    """Injects faults until `stop`, which repairs everything."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._scheduler = simulation.scheduler
        self._random = simulation.scheduler.rng
        self._cluster = simulation.cluster
        self._plan = plan
        self._store_kill = StoreKill(simulation.cluster, self._restart_later)
        self._operation_crashes = OperationCrashes(self._random)
        self._is_stopped = False
        self._has_lost_unsynced = False
        """Whether a node lost power since all partitions were last fully replicated."""
        self.counts: Counter[str] = Counter()
        self.coverage = Coverage()
        actions: dict[str, Callable[[], bool]] = {
            "kill": self._kill,
            "power": self._fail_power,
            "stop": self._stop_node,
            "pause": self._pause,
            "cut": self._cut_links,
            "one_way_cut": self._cut_links_one_way,
            "reset": self._reset,
            "slow_link": self._slow_link,
            "slow_disk": self._slow_disk,
            "full_disk": self._full_disk,
            "failed_fsync": self._failed_fsync,
            "clock_step": self._clock_step,
            "kill_at_write": self._kill_at_write,
            "power_at_write": self._fail_power_at_write,
            "io_errors": self._io_errors,
            "damage": self._damage,
            "duplicate": self._duplicate_connections,
            "drift": self._drift,
            "store": self._disturb_store,
            "store_kill": self._kill_at_store_request,
        }
        for name in plan.faults.enabled():
            self._schedule(name, getattr(plan.faults, name), actions[name])

    def stop(self) -> None:
        """End all faults, and start the nodes that do not run."""
        self._is_stopped = True
        self._cluster.network.heal()
        self._store_kill.disarm()
        self._operation_crashes.disarm()
        self._heal_store()
        for node in self._cluster.nodes.values():
            node.machine.state.disk_delay_ns_max = 0
            node.machine.state.disk.free_bytes = None
            node.machine.state.disk.fails_now = None
            node.machine.state.let_clocks_drift(0)
            self._resume(node)
        self._start_ended()

    def _start_ended(self) -> None:
        """Start nodes that have ended, again and again: a clean stop or a failure may be in progress."""
        for node in self._cluster.nodes.values():
            if not node.is_running:
                node.start()
        self._scheduler.after(SECOND, self._start_ended)

    def _schedule(self, name: str, mean_s: float, action: Callable[[], bool]) -> None:
        delay_ns = int(self._random.expovariate(1 / mean_s) * SECOND)

        def inject() -> None:
            if self._is_stopped or self._has_reached_limit():
                return
            states = states_of(self._cluster)
            if action():
                self.counts[name] += 1
                self.coverage.add((state, name) for state in states)
            self._schedule(name, mean_s, action)

        self._scheduler.after(delay_ns, inject)

    def _has_reached_limit(self) -> bool:
        limit = self._plan.faults_max
        return limit is not None and self.counts.total() >= limit

    def _schedule_after(self, between_s: tuple[float, float], action: Callable[[], None]) -> None:
        self._scheduler.after(int(self._random.uniform(*between_s) * SECOND), action)

    def _note(self, text: str) -> None:
        self._simulation.trace.note("faults", text)
        self._simulation.trace.add(self._simulation.trace.code(f"fault {text}"))

    def _running_node(self) -> SimulatedNode | None:
        running = [node for node in self._cluster.nodes.values() if node.is_running]
        return self._random.choice(running) if running else None

    # ---- nodes

    def _kill(self) -> bool:
        node = self._running_node()
        if node is None:
            return False
        node.kill()
        self._restart_later(node)
        return True

    def _fail_power(self) -> bool:
        node = self._running_node()
        if node is None or not self._may_lose_unsynced():
            return False
        node.fail_power()
        self._restart_later(node)
        return True

    def _may_lose_unsynced(self) -> bool:
        """Return whether a node may lose unsynced records: with acks=all, one replica must keep its log."""
        if self._plan.syncs_every_append:
            return True
        if self._has_lost_unsynced and not is_fully_replicated(self._cluster):
            return False
        self._has_lost_unsynced = True
        return True

    def _stop_node(self) -> bool:
        node = self._running_node()
        if node is None or node.broker is None or node.is_stopping:
            return False
        node.stop()
        self._restart_later(node)
        return True

    def _restart_later(self, node: SimulatedNode) -> None:
        def restart() -> None:
            if node.is_running:
                self._restart_later(node)
            elif not self._is_stopped:
                node.start()

        self._schedule_after(RESTART_S, restart)

    def _pause(self) -> bool:
        node = self._running_node()
        if node is None or node.machine.process is None or node.machine.process.state.is_paused:
            return False
        self._note(f"node {node.node_id} is paused")
        node.machine.process.pause()
        self._schedule_after(PAUSE_S, lambda: self._resume(node))
        return True

    def _resume(self, node: SimulatedNode) -> None:
        process = node.machine.process
        if process is not None and process.state.is_paused:
            self._note(f"node {node.node_id} continues")
            process.resume()

    # ---- network

    def _groups(self) -> tuple[list[str], list[str]]:
        """Return a random part of all machines, and the others."""
        addresses = list(self._cluster.network.machines)
        nodes = [node.machine.state.address for node in self._cluster.nodes.values()]
        apart = self._random.sample(nodes, 1 + self._random.randrange(len(nodes) - 1))
        # Clients are cut off from these nodes as well, or reach all of them.
        others = nodes if self._random.random() < 0.5 else addresses
        return apart, [address for address in others if address not in apart]

    def _cut_links(self) -> bool:
        apart, others = self._groups()
        self._note(f"{apart} and {others} are cut off from each other")
        self._cluster.network.cut(apart, others)
        self._cluster.network.cut(others, apart)
        self._schedule_after(CUT_S, self._heal)
        return True

    def _cut_links_one_way(self) -> bool:
        apart, others = self._groups()
        if self._random.random() < 0.5:
            apart, others = others, apart
        self._note(f"{apart} cannot send to {others}")
        self._cluster.network.cut(apart, others)
        self._schedule_after(CUT_S, self._heal)
        return True

    def _heal(self) -> None:
        self._note("all links are repaired")
        self._cluster.network.heal()

    def _reset(self) -> bool:
        self._cluster.network.reset_connection()
        return True

    def _slow_link(self) -> bool:
        apart, others = self._groups()
        delay_ns = self._random.choice((5, 50, 500)) * MS
        self._note(f"packets from {apart} to {others} take up to {delay_ns // MS} ms longer")
        for source in apart:
            for target in others:
                self._cluster.network.link(source, target).extra_delay_ns = delay_ns
        self._schedule_after(CUT_S, self._heal)
        return True

    def _duplicate_connections(self) -> bool:
        count = 1 + self._random.randrange(5)
        self._note(f"the next {count} connections arrive twice")
        self._cluster.network.duplicate_connections(count)
        return True

    # ---- disks and clocks

    def _slow_disk(self) -> bool:
        node = self._random.choice(list(self._cluster.nodes.values()))
        state, delay_ns = node.machine.state, self._random.choice((20, 200, 2_000)) * MS
        self._note(f"the disk of node {node.node_id} takes up to {delay_ns // MS} ms longer")
        state.disk_delay_ns_max = delay_ns

        def end() -> None:
            state.disk_delay_ns_max = 0

        self._schedule_after(CUT_S, end)
        return True

    def _full_disk(self) -> bool:
        node = self._random.choice(list(self._cluster.nodes.values()))
        state = node.machine.state
        self._note(f"the disk of node {node.node_id} is nearly full")
        state.disk.free_bytes = self._random.randrange(20_000)

        def end() -> None:
            self._note(f"the disk of node {node.node_id} has space")
            state.disk.free_bytes = None

        self._schedule_after(CUT_S, end)
        return True

    def _io_errors(self) -> bool:
        node, share = (
            self._random.choice(list(self._cluster.nodes.values())),
            self._random.choice(ERROR_SHARES),
        )
        state, random, scheduler = node.machine.state, self._random, self._scheduler
        self._note(f"{share:.0%} of the operations of the disk of node {node.node_id} fail")
        # Checks read the disks between events, when no process runs.
        state.disk.fails_now = lambda: bool(scheduler.current) and random.random() < share

        def end() -> None:
            self._note(f"the disk of node {node.node_id} is repaired")
            state.disk.fails_now = None
            if not node.is_running:
                self._restart_later(node)

        self._schedule_after(CUT_S, end)
        return True

    def _damage(self) -> bool:
        node = self._running_node()
        if node is None or not self._may_lose_unsynced():
            return False
        node.kill()
        self._note(f"one bit changes on node {node.node_id} in each of {damage(node, self._random)}")
        self._restart_later(node)
        return True

    def _failed_fsync(self) -> bool:
        node = self._running_node()
        if node is None or not self._may_lose_unsynced():
            return False
        self._note(f"the next fsync of node {node.node_id} fails")
        node.machine.state.disk.fail_next_fsync("")

        def lose_cache() -> None:
            # The pages that the kernel has dropped are gone for the next process too.
            if not self._is_stopped and node.is_running:
                node.fail_power()
                self._restart_later(node)

        self._schedule_after((0.0, 5.0), lose_cache)
        return True

    def _clock_step(self) -> bool:
        node = self._random.choice(list(self._cluster.nodes.values()))
        state, step_ms = node.machine.state, self._random.choice((-3_600_000, -5_000, 300, 60_000))
        self._note(f"the wall clock of node {node.node_id} jumps by {step_ms} ms")
        state.wall_ahead_ms = max(-CLOCK_BEHIND_MS_MAX, state.wall_ahead_ms + step_ms)
        return True

    def _drift(self) -> bool:
        node, rate_ppm = (
            self._random.choice(list(self._cluster.nodes.values())),
            self._random.choice(DRIFTS_PPM),
        )
        state = node.machine.state
        self._note(f"the clocks of node {node.node_id} are faster by {rate_ppm} ppm")
        state.let_clocks_drift(rate_ppm)
        self._schedule_after(CUT_S, lambda: state.let_clocks_drift(0))
        return True

    def _kill_at_write(self) -> bool:
        def crash(node: SimulatedNode, text: str) -> None:
            self._note(f"node {node.node_id} is killed before: {text}")
            self._restart_later(node)
            node.kill_at_operation()

        return self._arm(crash)

    def _fail_power_at_write(self) -> bool:
        def crash(node: SimulatedNode, text: str) -> None:
            if self._may_lose_unsynced():
                self._note(f"the power of node {node.node_id} fails within: {text}")
                self._restart_later(node)
                fail_power(node)

        return self._arm(crash)

    def _arm(self, crash: Callable[[SimulatedNode, str], None]) -> bool:
        node = self._running_node()
        if node is None:
            return False
        self._note(self._operation_crashes.arm(node, crash))
        return True

    # ---- object store

    def _disturb_store(self) -> bool:
        self._note(disturb(self._cluster.bucket, self._random))
        self._schedule_after(CUT_S, self._heal_store)
        return True

    def _heal_store(self) -> None:
        self._note("the store is repaired")
        self._cluster.bucket.heal()

    def _kill_at_store_request(self) -> bool:
        self._store_kill.arm(self._random)
        return True
