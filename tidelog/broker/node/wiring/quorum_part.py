"""A node's part in the metadata quorum: its replica, and the controller with its listeners."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tidelog.base.randomness import new_uuid
from tidelog.broker.controller.controller import Controller
from tidelog.broker.controller.handlers.quorum import RaftHandlers
from tidelog.broker.network.request import Request
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.node.wiring.controllers import ControllerListeners, make_access, make_registration
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.quorum import make_raft_node, report_quorum


class QuorumPart:
    """Every node has it; one that is no controller observes, and its controller is never the active one.

    `access` reaches the active controller, wherever that is.
    """

    def __init__(self, context: NodeContext, undo: AsyncExitStack) -> None:
        """Bind the controllers' listeners and open the metadata log; nothing runs yet."""
        config = context.config
        self._tasks = RequestChannel(config.queued_max_requests)
        self.listeners = ControllerListeners(config, context.clock, self._dispatch)
        undo.push_async_callback(self.listeners.close, timeout_s=0)
        self.endpoints = self.listeners.endpoints(context.host_name)
        """Where other nodes reach this controller."""
        self.raft = make_raft_node(
            config,
            cluster_id=context.cluster_id,
            directory_id=context.directory_ids[config.metadata_log_directory],
            endpoints=self.endpoints,
            fs=context.fs,
            clock=context.clock,
            environment=context.environment,
            executor=context.threads.quorum,
            randomness=context.randomness,
            on_fatal=lambda error: context.cannot_go_on(f"the metadata quorum has ended: {error}"),
        )
        undo.push_async_callback(self.raft.abandon)
        self.controller = Controller(
            config,
            self.raft.store,
            clock=context.clock,
            randomness=context.randomness,
            tasks=self._tasks,
            slices=context.slices,
            metrics=context.metrics.requests,
        )
        self.access = make_access(config, self.raft, self.controller, context.clock, context.environment)
        undo.push_async_callback(self.access.close)
        self.raft.store.on_leader_change(self.access.controller_changed)
        self._enlistment = make_registration(
            config,
            self.access,
            self.raft.store,
            context.clock,
            incarnation_id=new_uuid(context.randomness),
            listeners=config.advertised_controllers(context.host_name, self.listeners.ports()),
        )
        undo.push_async_callback(self._enlistment.close)
        self._enlists = bool(config.controller_listeners)
        driver = self.raft.driver
        RaftHandlers(driver.post, lambda: driver.failure is not None).register(self.controller.dispatcher)
        report_quorum(context.metrics, self.raft)
        if self.listeners.network is not None and not config.is_broker:
            context.metrics.add_network(self.listeners.network)

    async def start(self) -> None:
        """Accept other controllers and brokers; follow, vote and be voted for."""
        await self.listeners.start()
        self.raft.start()
        if self._enlists:
            self._enlistment.start()

    async def leave(self) -> None:
        """Ask the active controller for nothing more."""
        await self._enlistment.close()
        await self.access.close()

    async def release(self) -> None:
        """Close the listeners, once the replica has ended."""
        await self.listeners.close(timeout_s=0)
        await self._tasks.close()

    def _dispatch(self, request: Request) -> None:
        self.controller.dispatcher.dispatch(request)
