"""The cluster as one user of the console sees it: clients with this user's credentials (shell)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tidelog.cli.console import documents
from tidelog.cli.console.tier_documents import TierReader
from tidelog.cli.output import json_text
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import KafkaError

EVENT_INTERVAL_S: Final = 2.0


class ClusterSession:
    """An open admin client, and the options of consumers and producers of the same user."""

    def __init__(
        self,
        admin: Admin,
        bootstrap: str,
        consumer_options: Mapping[str, Any],
        producer_options: Mapping[str, Any],
    ) -> None:
        self.admin = admin
        self.bootstrap = bootstrap
        self.consumer_options = consumer_options
        self.producer_options = producer_options
        self.tier = TierReader(admin, {"bootstrap_servers": bootstrap, **consumer_options})
        self._overview: asyncio.Task[str] | None = None
        self._overview_read_at = 0.0

    async def shared_overview(self) -> str:
        """Return the overview as JSON, which is read at most once in EVENT_INTERVAL_S for all callers."""
        now = asyncio.get_running_loop().time()
        if self._overview is None or (
            self._overview.done() and now - self._overview_read_at >= EVENT_INTERVAL_S / 2
        ):
            self._overview_read_at = now
            self._overview = asyncio.create_task(self._read_overview())
        return await asyncio.shield(self._overview)

    async def close(self) -> None:
        """Disconnect."""
        if self._overview is not None:
            self._overview.cancel()
        await self.admin.close()

    async def _read_overview(self) -> str:
        try:
            return json_text(await documents.overview(self.admin))
        except (KafkaError, OSError) as error:
            return json_text({"error": error_text(error)})


def error_text(error: Exception) -> str:
    """Return the text of an error, or its type if it has none."""
    return str(error) or type(error).__name__
