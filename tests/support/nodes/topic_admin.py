"""Creation, change and deletion of topics, for tests without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType


class TopicAdmin:
    """Synchronous operations on topics; each one uses a new admin client and raises KafkaError."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def create(
        self, topic: str, configs: Mapping[str, str], partitions: int = 1, replication_factor: int = -1
    ) -> UUID:
        """Create a topic and return its id."""

        async def create() -> UUID:
            async with Admin(self._servers) as admin:
                created = await admin.create_topic(topic, partitions, replication_factor, configs=configs)
                return created.topic_id

        return asyncio.run(create())

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set configs of a topic."""

        async def alter() -> None:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
            async with Admin(self._servers) as admin:
                error = (await admin.incremental_alter_configs({resource: changes}))[resource]
                if error is not None:
                    raise error

        asyncio.run(alter())

    def delete(self, topic: str) -> None:
        """Delete a topic."""

        async def delete() -> None:
            async with Admin(self._servers) as admin:
                error = (await admin.delete_topics([topic]))[topic]
                if error is not None:
                    raise error

        asyncio.run(delete())
