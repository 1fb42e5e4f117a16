"""Shows how segments move to the tier while other steps of the demo run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.clients.admin.admin import Admin
from tidelog.demo.tier_view import Border, TierView, border_table
from tidelog.protocol.errors import KafkaError

POLL_S: Final = 0.4
DEADLINE_S: Final = 120.0


class TooSlow(Exception):
    """The cluster has not reached the expected state before the deadline."""


class TierWatch:
    """The latest state of the tier, and a live table of it on a terminal."""

    def __init__(self, view: TierView, servers: str, console: Console) -> None:
        self._view = view
        self._servers = servers
        self._console = console
        self.borders: Sequence[Border] = ()
        self._first_state = asyncio.Event()

    @property
    def table(self) -> Table:
        """The latest state as a table."""
        return border_table(self.borders, "Where the records are")

    def is_tiered(self, records: int) -> bool:
        """Return whether the latest state has all `records`, with only the active segments on disk.

        A state from before the last record was written, or without a partition whose leader changes, has
        fewer.
        """
        committed_records = sum(border.high_watermark for border in self.borders)
        return committed_records >= records and all(border.is_tiered for border in self.borders)

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Update the state repeatedly while the block runs."""
        task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def wait_for_first_state(self) -> None:
        """Wait for the first state, inside a `follow` block. Errors: TooSlow."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._first_state.wait()
        except TimeoutError:
            raise TooSlow(f"the state of the tier is unknown after {DEADLINE_S:.0f} s") from None

    async def wait_until_tiered(self, records: int) -> float:
        """Wait until all segments of `records` except the active ones are only in the tier.

        Return the duration in seconds. Errors: TooSlow.
        """
        began = SYSTEM_CLOCK.monotonic_s()
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            async with self.follow():
                while not self.is_tiered(records):
                    if self._console.is_terminal:
                        live.update(self.table, refresh=True)
                    if SYSTEM_CLOCK.monotonic_s() > began + DEADLINE_S:
                        raise TooSlow(f"after {DEADLINE_S:.0f} s not all segments are in the tier")
                    await asyncio.sleep(POLL_S / 2)
        return SYSTEM_CLOCK.monotonic_s() - began

    async def wait_until_synced(self) -> float:
        """Wait until every replica is in sync; return the duration in seconds. Errors: TooSlow."""
        began = SYSTEM_CLOCK.monotonic_s()
        async with Admin(self._servers) as admin:
            while not await self._is_in_sync(admin):
                if SYSTEM_CLOCK.monotonic_s() > began + DEADLINE_S:
                    raise TooSlow(f"after {DEADLINE_S:.0f} s not every replica is in sync")
                await asyncio.sleep(POLL_S / 4)
        return SYSTEM_CLOCK.monotonic_s() - began

    async def _is_in_sync(self, admin: Admin) -> bool:
        try:
            return await self._view.is_in_sync(admin)
        except (KafkaError, OSError):
            return False

    async def _poll(self) -> None:
        async with Admin(self._servers) as admin:
            while True:
                # A killed node does not respond: the next update uses the new leaders.
                with suppress(KafkaError, OSError):
                    self.borders = await self._view.borders(admin)
                    self._first_state.set()
                await asyncio.sleep(POLL_S)
