"""The channels from a broker to the other brokers, and to itself."""

from __future__ import annotations

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.in_process import InProcessRequests
from tidelog.broker.channels.broker_channel import BrokerChannel, broker_address
from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.node.wiring.node_context import NodeContext


class BrokerChannels:
    """The channels for transaction markers, for verifications, and for the state of share partitions.

    A marker is acknowledged when it is replicated. A verification must not wait for this on the same
    connection. The state of a share partition must not wait for either.
    """

    def __init__(self, context: NodeContext, dispatcher: Dispatcher, store: MetadataStore) -> None:
        """Create the channels, which use the current addresses in the metadata."""
        self.markers = _create_channel(context, dispatcher, store)
        self.verifications = _create_channel(context, dispatcher, store)
        self.share_state = _create_channel(context, dispatcher, store)

    async def close(self) -> None:
        """Close the connections."""
        await self.markers.close()
        await self.verifications.close()
        await self.share_state.close()


def _create_channel(context: NodeContext, dispatcher: Dispatcher, store: MetadataStore) -> BrokerChannel:
    config = context.config
    channel = BrokerChannel(
        node_id=config.node_id,
        handle_locally=InProcessRequests(dispatcher, context.clock, str(config.node_id)).handle,
        find=lambda broker: broker_address(store.image, broker, config.inter_broker_listener),
        environment=context.environment,
        settings=node_connection_settings(
            config,
            security=context.security_of(config.inter_broker_listener),
            request_timeout_ms=config.request_timeout_ms,
        ),
    )
    store.subscribe(lambda _, image: channel.on_metadata_changed(image))
    return channel
