"""The controller of a node: the handlers on its listeners, and its periodic tasks.

While this node is not the active controller, handlers that change metadata respond with NOT_CONTROLLER, and
no task runs.
"""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.handlers.registry import ControllerServices, register_controller_apis
from tidelog.broker.controller.local import InProcessController
from tidelog.broker.controller.tasks import ControllerTasks, TaskIntervals
from tidelog.broker.metadata.settings import controller_settings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.broker.quotas.subscription import on_changed_quotas
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.protocol.ids import LeaderEpoch


class Controller:
    """Registers the controller's handlers; `in_process` serves requests of this node's own broker."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        randomness: Randomness,
        authorizer: Authorizer,
    ) -> None:
        """Register the handlers with `dispatcher`, which serves the listeners for controllers."""
        self.mutations = MutationQuotas(clock, config.controller_quota_windows)
        store.subscribe(on_changed_quotas(self.mutations.update))
        self._services = ControllerServices(
            config=config,
            store=store,
            clock=clock,
            randomness=randomness,
            heartbeats=BrokerHeartbeats(config.broker_session_timeout_ms),
            mutations=self.mutations,
            authorizer=authorizer,
        )
        register_controller_apis(dispatcher, self._services)
        self.in_process = InProcessController(
            dispatcher, self._services.is_active, clock, client_id=str(config.node_id)
        )
        self._tasks = ControllerTasks(
            store,
            controller_settings(config),
            self._services.heartbeats,
            clock,
            TaskIntervals.of(config),
        )
        store.leadership.add_activation_listener(self._on_activation)
        store.leadership.add_resignation_listener(self._tasks.stop)

    def _on_activation(self, epoch: LeaderEpoch) -> None:
        services = self._services
        services.heartbeats.activate(services.store.controller_image, services.clock.monotonic_ms())
        self._tasks.start()
