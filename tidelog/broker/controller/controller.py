"""The controller half of a node: what answers its listener, and what it does over time.

All of it is there from the start; while the node is not the active controller, whatever would
change metadata answers NOT_CONTROLLER and nothing runs in the background.
"""

from __future__ import annotations

import logging

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.handlers.registry import ControllerServices, register_controller_apis
from tidelog.broker.controller.local import InProcessController
from tidelog.broker.controller.tasks import ControllerTasks, TaskIntervals
from tidelog.broker.metadata.settings import controller_settings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.protocol.ids import LeaderEpoch

logger = logging.getLogger(__name__)


class Controller:
    """`dispatcher` answers the controllers' listener, `in_process` the other parts of the node."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        *,
        clock: Clock,
        randomness: Randomness,
        tasks: RequestChannel,
        slices: Slices,
        metrics: RequestMetrics,
    ) -> None:
        self.services = ControllerServices(
            config=config,
            store=store,
            clock=clock,
            randomness=randomness,
            heartbeats=BrokerHeartbeats(config.broker_session_timeout_ms),
        )
        if config.authorizer_class_name:
            logger.warning("authorizer.class.name: access control entries are kept but not enforced yet")
        self.dispatcher = Dispatcher(tasks, metrics, clock, slices)
        register_controller_apis(self.dispatcher, self.services)
        self.in_process = InProcessController(
            self.dispatcher, self.services.is_active, clock, client_id=str(config.node_id)
        )
        self._tasks = ControllerTasks(
            store,
            controller_settings(config),
            self.services.heartbeats,
            clock,
            TaskIntervals.of(config),
        )
        store.on_activation(self._activated)
        store.on_resignation(self._tasks.stop)

    def stop(self) -> None:
        """Do nothing more in the background."""
        self._tasks.stop()

    def _activated(self, epoch: LeaderEpoch) -> None:
        services = self.services
        services.heartbeats.activate(services.store.controller_image, services.clock.monotonic_ms())
        self._tasks.start()
