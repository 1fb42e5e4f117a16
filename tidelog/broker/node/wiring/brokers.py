"""The way from a node to the other brokers, and to itself."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.clock import Clock
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.in_process import InProcessRequests
from tidelog.broker.channels.broker_channel import BrokerChannel, broker_address
from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.clients.config.environment import Environment
from tidelog.cluster.image import MetadataImage


def make_broker_channel(
    config: BrokerConfig,
    dispatcher: Dispatcher,
    clock: Clock,
    environment: Environment,
    image: Callable[[], MetadataImage],
) -> BrokerChannel:
    """Brokers are found in the metadata, and asked on the listener for brokers."""
    return BrokerChannel(
        node_id=config.node_id,
        answer_here=InProcessRequests(dispatcher, clock, str(config.node_id)).answer,
        find=lambda broker: broker_address(image(), broker, config.inter_broker_listener),
        environment=environment,
        settings=node_connection_settings(config, request_timeout_ms=config.request_timeout_ms),
    )
