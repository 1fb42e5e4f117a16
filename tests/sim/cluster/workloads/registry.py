"""The workloads by name, as a plan selects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.topics import TOPIC
from tests.sim.cluster.workloads.compaction import Compaction
from tests.sim.cluster.workloads.config_changes import ConfigChanges
from tests.sim.cluster.workloads.feature_changes import FeatureChanges
from tests.sim.cluster.workloads.reassignments import Reassignments
from tests.sim.cluster.workloads.recreation import Recreation
from tests.sim.cluster.workloads.retention import Retention
from tests.sim.cluster.workloads.rolling_restarts import RollingRestarts
from tests.sim.cluster.workloads.share_group import ShareGroup
from tests.sim.cluster.workloads.tiering import Tiering
from tests.sim.cluster.workloads.voter_changes import VoterChanges
from tests.sim.cluster.workloads.workload import Workload
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.testing.simulation.simulation import Simulation

CREATE_WORKLOAD: Final[Mapping[str, Callable[[Simulation, Plan], Workload]]] = {
    "recreation": Recreation,
    "reassignments": lambda simulation, plan: Reassignments(simulation, plan, (TOPIC, GROUP_METADATA_TOPIC)),
    "configs": lambda simulation, plan: ConfigChanges(simulation, plan, TOPIC),
    "retention": Retention,
    "compaction": Compaction,
    "tiering": Tiering,
    "share_group": ShareGroup,
    "rolling_restarts": RollingRestarts,
    "voters": VoterChanges,
    "features": FeatureChanges,
}
