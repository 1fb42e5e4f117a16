"""Faults of a run, and its periodic events: heartbeats, flushes, crashes, link failures, pauses."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.replication.broker import UNREGISTERED, SimBroker
from tests.sim.replication.cluster import CONTROLLER, HEARTBEAT_MS, SESSION_MS, SimulatedCluster
from tidelog.cluster.image import NO_LEADER


class Faults:
    """Drives a cluster: first with faults, then without."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._rng = cluster.rng
        self._values = 0
        self._has_ended = False

    def start(self) -> None:
        """Deliver the first metadata to the brokers and start all periodic events."""
        cluster, swarm = self._cluster, self._cluster.swarm
        for broker in cluster.brokers:
            broker.apply(0)
            self._schedule_broker_events(broker)
        self._repeat(HEARTBEAT_MS, self._fence_silent)
        self._repeat(swarm.produce_every_ms, self._produce)
        self._repeat(swarm.faults_every_ms, self._fault)

    def _repeat(self, period_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            work()
            self._cluster.schedule(max(1, int(self._rng.uniform(0.5, 1.5) * period_ms)), run)

        self._cluster.schedule(self._rng.randint(0, period_ms), run)

    def _schedule_broker_events(self, broker: SimBroker) -> None:
        """Run the periodic events of a broker while its process lives."""
        cluster, swarm = self._cluster, self._cluster.swarm

        def repeat(period_ms: int, work: Callable[[], object]) -> None:
            def run() -> None:
                work()
                cluster.schedule_at(broker, max(1, int(self._rng.uniform(0.5, 1.5) * period_ms)), run)

            cluster.schedule_at(broker, self._rng.randint(1, period_ms), run)

        repeat(HEARTBEAT_MS, lambda: self._heartbeat(broker))
        repeat(swarm.lag_time_max_ms // 2, lambda: broker.partition.check_isr() and None)
        repeat(swarm.flush_every_ms, broker.log.flush)
        repeat(200, broker.log.checkpoint)
        if swarm.tiered:
            cluster.tier.listen(broker)
            repeat(40, lambda: cluster.tier.upload(broker))
            repeat(60, lambda: cluster.tier.delete_locally(broker))
            repeat(150, lambda: cluster.tier.expire(broker))

    # -- brokers and the controller

    def _heartbeat(self, broker: SimBroker) -> None:
        cluster = self._cluster
        if (broker.id, CONTROLLER) in cluster.cut_links:
            return
        controller = cluster.controller
        if broker.epoch == UNREGISTERED:
            broker.epoch = controller.register(broker.id, broker.clean_epoch)
            broker.clean_epoch = None
            cluster.trace(f"{broker.id}: registers, epoch {broker.epoch}")
            cluster.heartbeat_ms[broker.id] = cluster.now_ms
            cluster.publish()
            return
        if broker.epoch != controller.brokers[broker.id].epoch:
            return
        cluster.heartbeat_ms[broker.id] = cluster.now_ms
        if controller.brokers[broker.id].fenced and broker.applied_version == len(controller.versions) - 1:
            cluster.trace(f"{broker.id}: unfenced")
            controller.unfence(broker.id)
        cluster.publish_to(broker)

    def _fence_silent(self) -> None:
        cluster = self._cluster
        for broker in cluster.brokers:
            image = cluster.controller.brokers[broker.id]
            if not image.fenced and cluster.now_ms - cluster.heartbeat_ms[broker.id] > SESSION_MS:
                cluster.trace(f"controller: fences {broker.id}")
                cluster.controller.fence(broker.id)
                cluster.publish()

    def _produce(self) -> None:
        if not self._has_ended:
            self._values += 1
            self._cluster.produce(f"v{self._values}")

    # -- faults

    def _fault(self) -> None:
        if self._has_ended:
            return
        rng, cluster = self._rng, self._cluster
        broker = rng.choice(cluster.brokers)
        if cluster.swarm.tiered and rng.random() < 0.15:
            self._outage()
            return
        fault = rng.choices(
            (
                *(self._crash, self._wipe, self._crash_and_restart, self._stop, self._start, self._pause),
                *(self._cut_link, self._mute, self._isolate, self._heal, self._move, self._shuffle),
                self._delete,
            ),
            (5, 1, 4, 3, 14, 4, 4, 3, 3, 12, 4, 4, 2),
        )[0]
        fault(broker)

    def _crash(self, broker: SimBroker) -> None:
        if broker.is_up:
            broker.stop()
            # The last start has deleted the marker of a clean shutdown, even if the broker did not register.
            broker.clean_epoch = None
            broker.log.crash(self._rng)
            self._cluster.ledger.on_restart(broker.id)
            self._cluster.trace(f"{broker.id}: crashes, end {broker.log.log_end_offset}")

    def _wipe(self, broker: SimBroker) -> None:
        if broker.is_up:
            broker.stop()
            broker.clean_epoch = None
            broker.log.wipe()
            self._cluster.ledger.on_restart(broker.id)
            self._cluster.trace(f"{broker.id}: crashes, and gets an empty disk")

    def _crash_and_restart(self, broker: SimBroker) -> None:
        """Crash, lose records and restart soon, preferably while joining the ISR."""
        pending = [each.partition.pending_isr for each in self._cluster.brokers if each.is_up]
        joining = [each.added for each in pending if each is not None and each.added is not None]
        if joining:
            broker = self._cluster.brokers[joining[0]]
        if broker.is_up:
            self._rng.choice((self._crash, self._crash, self._wipe))(broker)
            self._cluster.schedule(self._rng.randint(1, 30), lambda: self._restart(broker))

    def _stop(self, broker: SimBroker) -> None:
        """Start a controlled shutdown if the broker reaches the controller."""
        cluster = self._cluster
        registered_epoch = cluster.controller.brokers[broker.id].epoch
        if (
            not broker.is_up
            or broker.epoch != registered_epoch
            or (broker.id, CONTROLLER) in cluster.cut_links
        ):
            return
        cluster.trace(f"{broker.id}: stops")
        cluster.controller.begin_shutdown(broker.id)
        cluster.publish()
        cluster.schedule_at(broker, self._rng.randint(5, 40), lambda: self._complete_shutdown(broker))

    def _complete_shutdown(self, broker: SimBroker) -> None:
        broker.log.flush()
        broker.log.checkpoint()
        broker.clean_epoch = broker.epoch
        broker.stop()
        broker.log.reopen()
        self._cluster.ledger.on_restart(broker.id)
        if self._has_ended:
            self._restart(broker)

    def _start(self, broker: SimBroker) -> None:
        down = [each for each in self._cluster.brokers if not each.is_up]
        if down:
            self._restart(self._rng.choice(down))

    def _restart(self, broker: SimBroker) -> None:
        if not broker.is_up:
            broker.start()
            self._cluster.trace(f"{broker.id}: starts")
            self._schedule_broker_events(broker)

    def _pause(self, broker: SimBroker) -> None:
        broker.paused_until_ms = self._cluster.now_ms + self._rng.randint(20, 300)

    def _cut_link(self, broker: SimBroker) -> None:
        other = self._rng.choice(self._cluster.brokers)
        self._cluster.cut_links |= {(broker.id, other.id), (other.id, broker.id)}

    def _mute(self, broker: SimBroker) -> None:
        other = self._rng.choice((CONTROLLER, *(b.id for b in self._cluster.brokers)))
        self._cluster.cut_links.add((broker.id, other) if self._rng.random() < 0.5 else (other, broker.id))

    def _isolate(self, broker: SimBroker) -> None:
        """Isolate a leader from the controller and some brokers, which may keep an old epoch."""
        others = [CONTROLLER, *(b.id for b in self._cluster.brokers if self._rng.random() < 0.5)]
        self._cluster.cut_links |= {
            pair for other in others for pair in ((broker.id, other), (other, broker.id))
        }

    def _heal(self, _: SimBroker) -> None:
        self._cluster.cut_links.clear()

    def _move(self, broker: SimBroker) -> None:
        if self._cluster.controller.move_leader(broker.id):
            self._cluster.trace(f"controller: moves leadership to {broker.id}")
            self._cluster.publish()

    def _shuffle(self, _: SimBroker) -> None:
        """Move leadership twice within a time in which not all brokers apply the metadata."""
        for delay_ms in (0, self._rng.randint(1, 40)):
            target = self._rng.choice(self._cluster.brokers)
            self._cluster.schedule(delay_ms, lambda target=target: self._move(target))  # type: ignore[misc]

    def _delete(self, broker: SimBroker) -> None:
        """Delete old records at a leader."""
        if (
            broker.is_up
            and broker.partition.leader is not None
            and broker.paused_until_ms <= self._cluster.now_ms
        ):
            log = broker.log
            offset = self._rng.randint(log.log_start_offset, log.high_watermark)
            self._cluster.ledger.deleted_to = max(self._cluster.ledger.deleted_to, offset)
            log.advance_log_start_offset(offset)

    def _outage(self) -> None:
        """Make the tier unavailable for some time."""
        cluster = self._cluster
        cluster.tier.is_down = True
        cluster.trace("the tier is down")

        def end() -> None:
            cluster.tier.is_down = False

        cluster.schedule(self._rng.randint(50, 400), end)

    # -- the end

    def heal_for_good(self) -> None:
        """End all faults and clients, and start everything."""
        self._has_ended = True
        cluster = self._cluster
        cluster.is_calm = True
        cluster.tier.is_down = False
        cluster.cut_links.clear()
        for broker in cluster.brokers:
            broker.paused_until_ms = min(broker.paused_until_ms, cluster.now_ms)
            self._restart(broker)

    def has_recovered(self) -> bool:
        """Return whether all replicas are in the ISR and agree."""
        cluster = self._cluster
        partition_image = cluster.controller.partition_image
        if partition_image.leader == NO_LEADER or len(partition_image.isr) != len(partition_image.replicas):
            return False
        if cluster.swarm.tiered and not self._has_read_metadata():
            return False
        end = cluster.brokers[partition_image.leader].log.log_end_offset
        return all(b.log.log_end_offset == end == b.log.high_watermark for b in cluster.brokers)

    def _has_read_metadata(self) -> bool:
        read_counts = [b.tier.read_count for b in self._cluster.brokers if b.tier is not None]
        return read_counts == [len(self._cluster.tier.events)] * len(self._cluster.brokers)
