"""Faults of a run, and its periodic events: heartbeats, flushes, crashes, link failures, pauses."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.replication.broker import UNREGISTERED, SimBroker
from tests.sim.replication.cluster import CONTROLLER, HEARTBEAT_MS, SESSION_MS, SimulatedCluster
from tidelog.cluster.image import NO_LEADER


class Faults:
    """Drives a world: first with faults, then without."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        self._rng = world.rng
        self._values = 0
        self._is_over = False

    def start(self) -> None:
        """Deliver the first metadata to the brokers and start all periodic events."""
        world, swarm = self._world, self._world.swarm
        for broker in world.brokers:
            broker.apply(0)
            self._live(broker)
        self._every(HEARTBEAT_MS, self._fence_silent)
        self._every(swarm.produce_every_ms, self._produce)
        self._every(swarm.faults_every_ms, self._fault)

    def _every(self, period_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            work()
            self._world.later(max(1, int(self._rng.uniform(0.5, 1.5) * period_ms)), run)

        self._world.later(self._rng.randint(0, period_ms), run)

    def _live(self, broker: SimBroker) -> None:
        """Run the periodic events of a broker while its process lives."""
        world, swarm = self._world, self._world.swarm

        def repeat(period_ms: int, work: Callable[[], object]) -> None:
            def run() -> None:
                work()
                world.on(broker, max(1, int(self._rng.uniform(0.5, 1.5) * period_ms)), run)

            world.on(broker, self._rng.randint(1, period_ms), run)

        repeat(HEARTBEAT_MS, lambda: self._heartbeat(broker))
        repeat(swarm.lag_time_max_ms // 2, lambda: broker.partition.check_isr() and None)
        repeat(swarm.flush_every_ms, broker.log.flush)
        repeat(200, broker.log.checkpoint)
        if swarm.tiered:
            world.tier.listen(broker)
            repeat(40, lambda: world.tier.upload(broker))
            repeat(60, lambda: world.tier.delete_locally(broker))
            repeat(150, lambda: world.tier.expire(broker))

    # -- brokers and the controller

    def _heartbeat(self, broker: SimBroker) -> None:
        world = self._world
        if (broker.id, CONTROLLER) in world.cut:
            return
        controller = world.controller
        if broker.epoch == UNREGISTERED:
            broker.epoch = controller.register(broker.id, broker.clean_epoch)
            broker.clean_epoch = None
            world.trace(f"{broker.id}: registers, epoch {broker.epoch}")
            world.heard_ms[broker.id] = world.now_ms
            world.publish()
            return
        if broker.epoch != controller.brokers[broker.id].epoch:
            return
        world.heard_ms[broker.id] = world.now_ms
        if controller.brokers[broker.id].fenced and broker.applied == len(controller.versions) - 1:
            world.trace(f"{broker.id}: unfenced")
            controller.unfence(broker.id)
        world.publish_to(broker)

    def _fence_silent(self) -> None:
        world = self._world
        for broker in world.brokers:
            image = world.controller.brokers[broker.id]
            if not image.fenced and world.now_ms - world.heard_ms[broker.id] > SESSION_MS:
                world.trace(f"controller: fences {broker.id}")
                world.controller.fence(broker.id)
                world.publish()

    def _produce(self) -> None:
        if not self._is_over:
            self._values += 1
            self._world.produce(f"v{self._values}")

    # -- faults

    def _fault(self) -> None:
        if self._is_over:
            return
        rng, world = self._rng, self._world
        broker = rng.choice(world.brokers)
        if world.swarm.tiered and rng.random() < 0.15:
            self._outage()
            return
        kind = rng.choices(
            (
                *("crash", "wipe", "bounce", "stop", "start", "pause", "cut", "deaf", "isolate"),
                *("heal", "move", "shuffle", "delete"),
            ),
            (5, 1, 4, 3, 14, 4, 4, 3, 3, 12, 4, 4, 2),
        )[0]
        getattr(self, f"_{kind}")(broker)

    def _crash(self, broker: SimBroker) -> None:
        if broker.is_up:
            broker.stop()
            # The start before has taken the marker of a clean shutdown away, even if nothing was registered.
            broker.clean_epoch = None
            broker.log.crash(self._rng)
            self._world.ledger.restarted(broker.id)
            self._world.trace(f"{broker.id}: crashes, end {broker.log.log_end_offset}")

    def _wipe(self, broker: SimBroker) -> None:
        if broker.is_up:
            broker.stop()
            broker.clean_epoch = None
            broker.log.wipe()
            self._world.ledger.restarted(broker.id)
            self._world.trace(f"{broker.id}: crashes, and gets an empty disk")

    def _bounce(self, broker: SimBroker) -> None:
        """Crash and restart at once with less on the disk, preferably while joining the ISR."""
        pending = [each.partition.pending_isr for each in self._world.brokers if each.is_up]
        joining = [each.added for each in pending if each is not None and each.added is not None]
        if joining:
            broker = self._world.brokers[joining[0]]
        if broker.is_up:
            self._rng.choice((self._crash, self._crash, self._wipe))(broker)
            self._world.later(self._rng.randint(1, 30), lambda: self._restart(broker))

    def _stop(self, broker: SimBroker) -> None:
        """Start a controlled shutdown if the broker reaches the controller."""
        world = self._world
        known = world.controller.brokers[broker.id].epoch
        if not broker.is_up or broker.epoch != known or (broker.id, CONTROLLER) in world.cut:
            return
        world.trace(f"{broker.id}: stops")
        world.controller.begin_shutdown(broker.id)
        world.publish()
        world.on(broker, self._rng.randint(5, 40), lambda: self._stopped(broker))

    def _stopped(self, broker: SimBroker) -> None:
        broker.log.flush()
        broker.log.checkpoint()
        broker.clean_epoch = broker.epoch
        broker.stop()
        broker.log.reopen()
        self._world.ledger.restarted(broker.id)
        if self._is_over:
            self._restart(broker)

    def _start(self, broker: SimBroker) -> None:
        down = [each for each in self._world.brokers if not each.is_up]
        if down:
            self._restart(self._rng.choice(down))

    def _restart(self, broker: SimBroker) -> None:
        if not broker.is_up:
            broker.start()
            self._world.trace(f"{broker.id}: starts")
            self._live(broker)

    def _pause(self, broker: SimBroker) -> None:
        broker.paused_until_ms = self._world.now_ms + self._rng.randint(20, 300)

    def _cut(self, broker: SimBroker) -> None:
        other = self._rng.choice(self._world.brokers)
        self._world.cut |= {(broker.id, other.id), (other.id, broker.id)}

    def _deaf(self, broker: SimBroker) -> None:
        other = self._rng.choice((CONTROLLER, *(b.id for b in self._world.brokers)))
        self._world.cut.add((broker.id, other) if self._rng.random() < 0.5 else (other, broker.id))

    def _isolate(self, broker: SimBroker) -> None:
        """Isolate a leader from the controller and some brokers, which may keep an old epoch."""
        others = [CONTROLLER, *(b.id for b in self._world.brokers if self._rng.random() < 0.5)]
        self._world.cut |= {pair for other in others for pair in ((broker.id, other), (other, broker.id))}

    def _heal(self, _: SimBroker) -> None:
        self._world.cut.clear()

    def _move(self, broker: SimBroker) -> None:
        if self._world.controller.move_leader(broker.id):
            self._world.trace(f"controller: moves leadership to {broker.id}")
            self._world.publish()

    def _shuffle(self, _: SimBroker) -> None:
        """Move leadership to other brokers and back before all brokers know."""
        for delay_ms in (0, self._rng.randint(1, 40)):
            target = self._rng.choice(self._world.brokers)
            self._world.later(delay_ms, lambda target=target: self._move(target))  # type: ignore[misc]

    def _delete(self, broker: SimBroker) -> None:
        """Delete old records at a leader."""
        if (
            broker.is_up
            and broker.partition.leader is not None
            and broker.paused_until_ms <= self._world.now_ms
        ):
            log = broker.log
            offset = self._rng.randint(log.log_start_offset, log.high_watermark)
            self._world.ledger.deleted_to = max(self._world.ledger.deleted_to, offset)
            log.advance_log_start_offset(offset)

    def _outage(self) -> None:
        """Make the tier unavailable for some time."""
        world = self._world
        world.tier.is_down = True
        world.trace("the tier is down")

        def end() -> None:
            world.tier.is_down = False

        world.later(self._rng.randint(50, 400), end)

    # -- the end

    def heal_for_good(self) -> None:
        """End all faults and clients, and start everything."""
        self._is_over = True
        world = self._world
        world.is_calm = True
        world.tier.is_down = False
        world.cut.clear()
        for broker in world.brokers:
            broker.paused_until_ms = min(broker.paused_until_ms, world.now_ms)
            self._restart(broker)

    def has_recovered(self) -> bool:
        """Return whether all replicas are in the ISR and agree."""
        world = self._world
        placed = world.controller.placed
        if placed.leader == NO_LEADER or len(placed.isr) != len(placed.replicas):
            return False
        if world.swarm.tiered and not self._metadata_is_heard():
            return False
        end = world.brokers[placed.leader].log.log_end_offset
        return all(b.log.log_end_offset == end == b.log.high_watermark for b in world.brokers)

    def _metadata_is_heard(self) -> bool:
        heard = [b.tier.heard for b in self._world.brokers if b.tier is not None]
        return heard == [len(self._world.tier.events)] * len(self._world.brokers)
