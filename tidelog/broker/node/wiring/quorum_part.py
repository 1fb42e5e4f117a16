"""The part that every node has: its replica of the metadata quorum, and the controller with its listeners."""

from __future__ import annotations

import asyncio

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import new_uuid
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.channels.controller_access import ControllerAccess
from tidelog.broker.config.quorum_config import controller_listener_name
from tidelog.broker.controller.controller import Controller
from tidelog.broker.controller.handlers.quorum import RaftHandlers
from tidelog.broker.metadata.controller_address import ControllerAddress
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.node.wiring.controller_listeners import ControllerListeners
from tidelog.broker.node.wiring.listener_authentication import ListenerAuthentication
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.quorum import create_raft_node, report_quorum
from tidelog.broker.node.wiring.raft_node import RaftNode
from tidelog.broker.node.wiring.stages import Action, Stage, Stages
from tidelog.broker.observability.authentication_metrics import report_authentications
from tidelog.broker.quotas.client_rates import ClientRates
from tidelog.broker.quotas.metrics import report_mutation_quotas, report_request_time
from tidelog.broker.quotas.request_quotas import EXEMPT_ON_CONTROLLERS, RequestQuotas
from tidelog.broker.quotas.subscription import on_changed_quotas
from tidelog.broker.registration.controller_registration import ControllerRegistration
from tidelog.broker.security.authorization.authorizer import AllowEverything, Authorizer
from tidelog.broker.security.authorization.request_guard import RequestGuard
from tidelog.broker.security.authorization.required_operations import CONTROLLER_OPERATIONS
from tidelog.broker.security.authorization.settings import standard_authorizer
from tidelog.cluster.quorum.voter_set import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPart:
    """The running replica and controller. A node without the controller role is an observer.

    `access` has the channels to the active controller. `endpoints` are the advertised addresses of the
    controller on this node. `request_rates` are the rates of request time, shared with the broker here.
    """

    listeners: ControllerListeners
    endpoints: tuple[Endpoint, ...]
    raft: RaftNode
    access: ControllerAccess
    registration: ControllerRegistration
    authorizer: Authorizer
    request_rates: ClientRates


async def start_quorum(context: NodeContext, stages: Stages) -> QuorumPart:
    """Open the metadata log, accept controllers and brokers, and take part in the quorum."""
    config = context.config
    channel = RequestChannel(config.queued_max_requests)
    await stages.start(Stage(name="controller requests", stop=[channel.close]))
    call_later = asyncio.get_running_loop().call_later
    acl_authorizer = standard_authorizer(config, lambda: raft.store.has_caught_up, call_later)
    authorizer: Authorizer = AllowEverything() if acl_authorizer is None else acl_authorizer
    quotas = RequestQuotas(context.clock, config.quota_windows, EXEMPT_ON_CONTROLLERS)
    dispatcher = Dispatcher(
        channel,
        context.metrics.requests,
        context.clock,
        context.slices,
        quotas=quotas,
        guard=RequestGuard(authorizer, CONTROLLER_OPERATIONS),
    )
    # The image exists when the listeners start.
    authentication = ListenerAuthentication(context, lambda: raft.store.image, dispatcher.dispatch)
    listeners = ControllerListeners(context, authentication.request_handler)
    await stages.start(
        Stage(
            name="controller listeners", start=[listeners.bind], stop=[listeners.close, authentication.close]
        )
    )
    endpoints = listeners.endpoints(context.host_name)
    raft = create_raft_node(context, endpoints)
    await stages.start(Stage(name="metadata log", stop=[raft.stop], abandon=[raft.abandon]))
    if acl_authorizer is not None:
        raft.store.subscribe(acl_authorizer.apply)
    access = _create_access(context, raft, dispatcher, authorizer)
    registration = _create_registration(context, raft, access, listeners)
    await stages.start(Stage(name="controller channels", stop=[registration.close, access.close]))
    raft.store.subscribe(on_changed_quotas(quotas.update))
    if listeners.address_quotas is not None:
        raft.store.subscribe(on_changed_quotas(listeners.address_quotas.update))
    raft.store.subscribe(listeners.on_metadata_changed)
    _report(context, raft, listeners, quotas)
    start_actions: list[Action] = [authentication.start, listeners.start, raft.start]
    if config.controller_listeners:
        start_actions.append(registration.start)
    await stages.start(Stage(name="quorum participation", start=start_actions))
    return QuorumPart(
        listeners=listeners,
        endpoints=endpoints,
        raft=raft,
        access=access,
        registration=registration,
        authorizer=authorizer,
        request_rates=quotas.request,
    )


def _create_access(
    context: NodeContext, raft: RaftNode, dispatcher: Dispatcher, authorizer: Authorizer
) -> ControllerAccess:
    """Register the controller's handlers, and create the channels to the active controller."""
    config, clock = context.config, context.clock
    controller = Controller(
        config,
        raft.store,
        dispatcher,
        clock=clock,
        randomness=context.randomness,
        authorizer=authorizer,
    )
    report_mutation_quotas(context.metrics, controller.mutations)
    RaftHandlers(raft.steps.post, lambda: raft.driver.failure is not None).register(dispatcher)
    access = ControllerAccess(
        config,
        ControllerAddress(config, raft.store, raft.leader_endpoints).find,
        clock,
        slices=context.slices,
        local=controller.in_process if config.is_controller else None,
        security=context.security_of(controller_listener_name(config)),
        environment=context.environment,
    )
    raft.store.leadership.add_leader_change_listener(access.on_controller_changed)
    return access


def _create_registration(
    context: NodeContext, raft: RaftNode, access: ControllerAccess, listeners: ControllerListeners
) -> ControllerRegistration:
    return ControllerRegistration(
        access.general,
        raft.store,
        context.clock,
        node_id=context.config.node_id,
        incarnation_id=new_uuid(context.randomness),
        listeners=context.config.advertised_controllers(context.host_name, listeners.ports()),
    )


def _report(
    context: NodeContext, raft: RaftNode, listeners: ControllerListeners, quotas: RequestQuotas
) -> None:
    report_quorum(context.metrics, raft)
    context.observability.health_checks.append(lambda: _failure_of(raft))
    if listeners.network is not None and not context.config.is_broker:
        context.metrics.add_network(listeners.network)
        report_authentications(context.metrics, (listeners.network,))
        report_request_time(context.metrics, quotas)


def _failure_of(raft: RaftNode) -> str | None:
    return None if raft.store.failure is None else str(raft.store.failure)
