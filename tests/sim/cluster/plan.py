"""The plan of one seed: the settings of the cluster, the load, and which faults happen how often.

A seed enables or disables each kind of fault and chooses its rate. A few seeds have no faults: continuous
faults can hide a defect that needs a quiet moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from random import Random

from tests.sim.cluster.workloads.settings import SETTINGS, first_levels, workloads_of
from tidelog.local_cluster.layout import QUICK_TIMEOUTS


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """The mean time between two faults of each kind in seconds of virtual time; 0 for never."""

    kill: float = 0.0
    power: float = 0.0
    stop: float = 0.0
    pause: float = 0.0
    cut: float = 0.0
    one_way_cut: float = 0.0
    reset: float = 0.0
    slow_link: float = 0.0
    slow_disk: float = 0.0
    full_disk: float = 0.0
    failed_fsync: float = 0.0
    clock_step: float = 0.0
    kill_at_write: float = 0.0
    power_at_write: float = 0.0
    store: float = 0.0
    store_kill: float = 0.0
    io_errors: float = 0.0
    damage: float = 0.0
    duplicate: float = 0.0
    drift: float = 0.0

    def enabled(self) -> list[str]:
        """Return the names of the kinds that happen."""
        return [each.name for each in fields(self) if getattr(self, each.name)]


NO_FAULTS = FaultRates()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one run; durations are in seconds of virtual time."""

    nodes: int = 3
    safety_s: float = 20.0
    liveness_s: float = 180.0
    partitions: int = 2
    producers: int = 2
    pause_of_producers_s: float = 0.05
    transactional_producers: int = 0
    group_members: int = 0
    group_protocol: str = "classic"
    compression: str = "none"
    syncs_every_append: bool = False
    """Whether acknowledged records survive the loss of power of all nodes."""
    config: dict[str, str] = field(default_factory=dict)
    topic_config: dict[str, str] = field(default_factory=dict)
    faults: FaultRates = NO_FAULTS
    workloads: tuple[str, ...] = ()
    """Names of `tests.sim.cluster.workloads.settings`."""
    features: dict[str, int] | None = None
    """The first feature levels; None for the newest ones."""
    faults_max: int | None = None
    """No further fault happens after this number of them; None for no limit."""

    def without(self, fault: str) -> Plan:
        """Return the plan without one kind of fault."""
        return replace(self, faults=replace(self.faults, **{fault: 0.0}))


def _without_two_unclean_ends(faults: FaultRates, random: Random) -> FaultRates:
    """Return rates with which acknowledged records must survive although they are not synced.

    The controller regards a killed broker as one that may have lost records, as Kafka's does, and may elect a
    broker that really has lost some. Therefore nodes are either killed or lose power.
    """
    if random.random() < 0.5:
        return replace(faults, power=0.0, failed_fsync=0.0)
    return replace(faults, kill=0.0, full_disk=0.0)


def with_store_faults(faults: FaultRates, random: Random, *, syncs_every_append: bool) -> FaultRates:
    """Return rates with faults of the object store; `store_kill` is an unclean end, as `kill` is."""
    store, store_kill = random.choice((0.0, 2.0, 6.0)), random.choice((0.0, 3.0))
    may_kill = syncs_every_append or not (faults.power or faults.failed_fsync)
    return replace(faults, store=store, store_kill=store_kill if may_kill else 0.0)


def with_crashes_at_writes(faults: FaultRates, random: Random, *, syncs_every_append: bool) -> FaultRates:
    """Return rates with nodes that end within a change of their disk, in a way that `faults` allow."""
    kill, power = random.choice((0.0, 0.0, 1.0, 4.0)), random.choice((0.0, 0.0, 1.0, 4.0))
    if not syncs_every_append:
        loses_unsynced = faults.power or faults.failed_fsync
        is_killed = faults.kill or faults.full_disk or faults.store_kill
        kill, power = (0.0 if loses_unsynced else kill), (0.0 if is_killed else power)
        if kill and power:
            power = 0.0
    return replace(faults, kill_at_write=kill, power_at_write=power)


def with_other_faults(faults: FaultRates, random: Random, *, syncs_every_append: bool) -> FaultRates:
    """Return rates with failing and damaged disks, duplicate connections and drifting clocks.

    A node with a failing disk ends uncleanly; one with a damaged disk loses what was not synced.
    """

    def sometimes(low: float, high: float) -> float:
        return round(random.uniform(low, high), 1) if random.random() < 0.15 else 0.0

    io_errors, damage = sometimes(3, 20), sometimes(2, 15)
    if syncs_every_append or faults.kill or faults.full_disk or faults.store_kill or faults.kill_at_write:
        damage = 0.0
    elif faults.power or faults.failed_fsync or faults.power_at_write or damage:
        io_errors = 0.0
    return replace(
        faults, io_errors=io_errors, damage=damage, duplicate=sometimes(0.2, 5), drift=sometimes(2, 15)
    )


def plan_of(seed: int) -> Plan:
    """Return the plan of `seed`."""
    random = Random(seed * 2 + 1)

    def often(probability: float, low: float, high: float) -> float:
        return round(low * (high / low) ** random.random(), 1) if random.random() < probability else 0.0

    config: dict[str, str] = {}
    if random.random() < 0.7:
        config.update(QUICK_TIMEOUTS)
    syncs_every_append = random.random() < 0.4
    if syncs_every_append:
        config["log.flush.interval.messages"] = "1"
    if random.random() < 0.3:
        config["num.replica.fetchers"] = "2"
    topic_config: dict[str, str] = {}
    if random.random() < 0.4:
        topic_config["internal.segment.bytes"] = str(random.choice((2_000, 16_384)))
    faults = FaultRates(
        kill=often(0.4, 2, 15),
        power=often(0.4, 3, 20),
        stop=often(0.3, 3, 20),
        pause=often(0.3, 2, 15),
        cut=often(0.3, 2, 15),
        one_way_cut=often(0.3, 2, 15),
        reset=often(0.4, 0.1, 5),
        slow_link=often(0.2, 2, 15),
        slow_disk=often(0.2, 2, 15),
        full_disk=often(0.15, 4, 20),
        failed_fsync=often(0.1, 5, 20),
        clock_step=often(0.15, 3, 20),
    )
    if not syncs_every_append:
        faults = _without_two_unclean_ends(faults, random)
    more = Random(seed * 2)
    workloads = workloads_of(more)
    for workload in workloads:
        config.update(SETTINGS[workload])
    if "tiering" in workloads:
        faults = with_store_faults(faults, more, syncs_every_append=syncs_every_append)
    faults = with_crashes_at_writes(faults, Random(seed * 2 + 5), syncs_every_append=syncs_every_append)
    faults = with_other_faults(
        faults, Random(f"other faults of {seed}"), syncs_every_append=syncs_every_append
    )
    return Plan(
        nodes=random.choice((3, 3, 3, 3, 4, 5)),
        safety_s=random.choice((5.0, 10.0, 20.0)),
        partitions=random.choice((1, 2, 3)),
        producers=random.choice((1, 2)),
        pause_of_producers_s=random.choice((0.05, 0.2, 0.5)),
        transactional_producers=random.choice((0, 0, 1, 2)),
        group_members=random.choice((0, 0, 1, 2)),
        group_protocol=random.choice(("classic", "consumer")),
        compression=random.choice(("none", "none", "lz4", "zstd")),
        syncs_every_append=syncs_every_append,
        config=config,
        topic_config=topic_config,
        faults=faults if random.random() < 0.97 else NO_FAULTS,
        workloads=workloads,
        features=first_levels(more) if "features" in workloads else None,
    )
