"""Follows how segments move to the tier while other steps of the demo run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidelog.clients.admin.admin import Admin
from tidelog.demo.tier_view import Border, TierView, border_table
from tidelog.protocol.errors import KafkaError

POLL_S: Final = 0.4
DEADLINE_S: Final = 120.0


class TooSlow(Exception):
    """The cluster did not get where it was to get before the deadline."""


class TierWatch:
    """The latest look at the tier; on a terminal a live table of it."""

    def __init__(self, view: TierView, servers: str, console: Console) -> None:
        self._view = view
        self._servers = servers
        self._console = console
        self.borders: Sequence[Border] = ()
        self._seen = asyncio.Event()

    @property
    def table(self) -> Table:
        """The latest look as a table."""
        return border_table(self.borders, "Where the records are")

    def is_tiered(self, records: int) -> bool:
        """Whether the latest look found all `records`, and only the active segments of them on disk.

        A look from before the last record was written, or without a partition whose leader just changed,
        finds fewer.
        """
        found = sum(border.high_watermark for border in self.borders)
        return found >= records and all(border.is_tiered for border in self.borders)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Look again and again while the block runs."""
        following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def until_seen(self) -> None:
        """Wait for the first look, while a block follows. Errors: TooSlow."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._seen.wait()
        except TimeoutError:
            raise TooSlow(f"after {DEADLINE_S:.0f} s nobody has said where the records are") from None

    async def until_tiered(self, records: int) -> float:
        """Wait until of `records` all but the active segments have moved; the seconds it took.

        Errors: TooSlow.
        """
        began = time.monotonic()
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            async with self.following():
                while not self.is_tiered(records):
                    if self._console.is_terminal:
                        live.update(self.table, refresh=True)
                    if time.monotonic() > began + DEADLINE_S:
                        raise TooSlow(f"after {DEADLINE_S:.0f} s not all segments are in the tier")
                    await asyncio.sleep(POLL_S / 2)
        return time.monotonic() - began

    async def until_whole(self) -> float:
        """Wait until every replica is in sync; the seconds that took. Errors: TooSlow."""
        began = time.monotonic()
        async with Admin(self._servers) as admin:
            while not await self._is_whole(admin):
                if time.monotonic() > began + DEADLINE_S:
                    raise TooSlow(f"after {DEADLINE_S:.0f} s not every replica is in sync")
                await asyncio.sleep(POLL_S / 4)
        return time.monotonic() - began

    async def _is_whole(self, admin: Admin) -> bool:
        try:
            return await self._view.is_whole(admin)
        except (KafkaError, OSError):
            return False

    async def _follow(self) -> None:
        async with Admin(self._servers) as admin:
            while True:
                # A node that dies takes its answers with it: the next look finds its successors.
                with suppress(KafkaError, OSError):
                    self.borders = await self._view.borders(admin)
                    self._seen.set()
                await asyncio.sleep(POLL_S)
