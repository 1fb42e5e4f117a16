"""Tidelog: an Apache Kafka compatible log broker in Python, with its clients.

    from tidelog import Admin, Consumer, EmbeddedCluster, Producer, Security

The names are loaded when first used, so that importing one does not import the broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.clients.admin.admin import Admin
    from tidelog.clients.consumer.consumer import Consumer
    from tidelog.clients.consumer.partition_reader import PartitionReader
    from tidelog.clients.consumer.topic_subscription import SubscriptionPattern
    from tidelog.clients.producer.producer import Producer
    from tidelog.clients.share_consumer.share_consumer import ShareConsumer
    from tidelog.clients.transactions.transaction_errors import (
        AbortableTransactionError,
        FatalTransactionError,
    )
    from tidelog.clients.transport.failures import TlsAuthenticationError
    from tidelog.local_cluster.security import Security
    from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType
    from tidelog.testing.embedded import EmbeddedCluster

__version__: str

__all__ = [
    "AbortableTransactionError",
    "AcknowledgeType",
    "Admin",
    "Consumer",
    "EmbeddedCluster",
    "FatalTransactionError",
    "PartitionReader",
    "Producer",
    "Security",
    "ShareConsumer",
    "SubscriptionPattern",
    "TlsAuthenticationError",
]


_HOMES = {
    "AbortableTransactionError": "tidelog.clients.transactions.transaction_errors",
    "AcknowledgeType": "tidelog.protocol.share_groups.acknowledge_type",
    "Admin": "tidelog.clients.admin.admin",
    "Consumer": "tidelog.clients.consumer.consumer",
    "EmbeddedCluster": "tidelog.testing.embedded",
    "FatalTransactionError": "tidelog.clients.transactions.transaction_errors",
    "PartitionReader": "tidelog.clients.consumer.partition_reader",
    "Producer": "tidelog.clients.producer.producer",
    "Security": "tidelog.local_cluster.security",
    "ShareConsumer": "tidelog.clients.share_consumer.share_consumer",
    "SubscriptionPattern": "tidelog.clients.consumer.topic_subscription",
    "TlsAuthenticationError": "tidelog.clients.transport.failures",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from tidelog.base.version import package_version

        return package_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
