"""Creates the topics of a test (shell)."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import KafkaError


async def create_topics(
    settings: ClientSettings, partition_counts: Mapping[str, int], config: Mapping[str, str]
) -> None:
    """Create topics, and wait until clients can use them. Errors: KafkaError of the first that fails."""
    # Imported here: a cluster whose test creates its topics itself does not need the client.
    from tidelog.clients.admin.admin import Admin, NewTopic

    topics = [
        NewTopic(name=name, num_partitions=count, configs=config) for name, count in partition_counts.items()
    ]
    options = settings.tidelog
    async with Admin(options.pop("bootstrap_servers"), **options) as admin:
        for result in (await admin.create_topics(topics)).values():
            if isinstance(result, KafkaError):
                raise result
