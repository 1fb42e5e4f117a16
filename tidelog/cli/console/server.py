"""The HTTP server of the console.

    /                                   the page, and its files in /static
    /api/overview, /api/topics, ...     documents of the pages
    /api/topics/NAME/records            records of one partition
    /api/events                         server-sent events: the overview every EVENT_INTERVAL_S, or more
                                        rarely if reading it takes long

Errors: a KafkaError is {"error": ...} with status 403 (not authorized), 404 (unknown) or 502 (others).

Bounds: EVENT_STREAMS_MAX streams of events, which share one reading of the overview; SEARCHES_MAX searches
at a time, and SEARCHES_WAITING_MAX that wait. Further streams and searches get 503: a search continues when
its browser has closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tidelog.cli.console import documents
from tidelog.cli.console.access import Access, add_headers
from tidelog.cli.console.record_search import InvalidSearchError, RecordSearch, find_records
from tidelog.cli.output import json_text
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
from tidelog.protocol.errors import ErrorCode, KafkaError

STATIC: Final = Path(__file__).parent / "static"
EVENT_INTERVAL_S: Final = 2.0
READING_SHARE_MAX: Final = 0.1
"""The share of time in which the overview may be read: a large cluster is read more rarely."""
EVENT_STREAMS_MAX: Final = 16
SEARCHES_MAX: Final = 4
SEARCHES_WAITING_MAX: Final = 16
_NOT_AUTHORIZED: Final = frozenset(code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND})
_PAGES: Final[dict[str, Callable[[Admin], Awaitable[Any]]]] = {
    "overview": documents.overview,
    "topics": documents.topics,
    "groups": documents.groups,
    "transactions": documents.transactions,
    "quotas": documents.quotas,
    "acls": documents.acls,
}


class ConsoleServer:
    """The pages of one cluster, read with `admin` and with consumers with `consumer_options`."""

    def __init__(
        self, admin: Admin, bootstrap: str, consumer_options: Mapping[str, Any], access: Access
    ) -> None:
        self._admin = admin
        self._bootstrap = bootstrap
        self._consumer_options = consumer_options
        self._search_limit = asyncio.Semaphore(SEARCHES_MAX)
        self._searches = 0
        """The searches that run or wait."""
        self._streams = 0
        self._overview: asyncio.Task[str] | None = None
        self._overview_read_at = 0.0
        app = self.app = web.Application(middlewares=[access.middleware()])
        app.on_response_prepare.append(add_headers)
        app.router.add_get("/", self._page)
        app.router.add_static("/static", STATIC)
        for name, read in _PAGES.items():
            app.router.add_get(f"/api/{name}", self._reader(read))
        app.router.add_get("/api/topics/{name}", self._topic)
        app.router.add_get("/api/topics/{name}/records", self._records)
        app.router.add_get("/api/groups/{name}", self._group)
        # A response to HEAD has no body, whose writing would detect that the browser has closed.
        app.router.add_get("/api/events", self._events, allow_head=False)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(STATIC / "index.html")

    def _reader(
        self, read: Callable[[Admin], Awaitable[Any]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def respond(request: web.Request) -> web.StreamResponse:
            return await _respond(read(self._admin))

        return respond

    async def _topic(self, request: web.Request) -> web.StreamResponse:
        return await _respond(documents.topic(self._admin, request.match_info["name"]))

    async def _group(self, request: web.Request) -> web.StreamResponse:
        return await _respond(documents.group(self._admin, request.match_info["name"]))

    async def _records(self, request: web.Request) -> web.StreamResponse:
        try:
            search = RecordSearch.parse(request.match_info["name"], request.query)
        except InvalidSearchError as error:
            return _json({"error": str(error)}, 400)
        searches_max = SEARCHES_MAX + SEARCHES_WAITING_MAX
        if self._searches >= searches_max:
            return _json({"error": f"allowed are {searches_max} searches at a time"}, 503)
        self._searches += 1
        try:
            return await _respond(self._find(search))
        finally:
            self._searches -= 1

    async def _find(self, search: RecordSearch) -> dict[str, Any]:
        topic = await documents.require_topic(self._admin, search.partition.topic)
        if all(each.partition != search.partition.partition for each in topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{search.partition} does not exist")
        async with self._search_limit, Consumer(self._bootstrap, **self._consumer_options) as consumer:
            return await find_records(consumer, search)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send the overview until the browser or the console ends."""
        if self._streams >= EVENT_STREAMS_MAX:
            return _json({"error": f"allowed are {EVENT_STREAMS_MAX} streams of events"}, 503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            while True:
                began = asyncio.get_running_loop().time()
                await response.write(f"event: overview\ndata: {await self._shared_overview()}\n\n".encode())
                elapsed = asyncio.get_running_loop().time() - began
                await asyncio.sleep(max(EVENT_INTERVAL_S, elapsed / READING_SHARE_MAX))
        except ConnectionResetError:
            return response
        finally:
            self._streams -= 1

    async def _shared_overview(self) -> str:
        """Return the overview, which is read at most once in EVENT_INTERVAL_S for all streams."""
        now = asyncio.get_running_loop().time()
        if self._overview is None or (
            self._overview.done() and now - self._overview_read_at >= EVENT_INTERVAL_S / 2
        ):
            self._overview_read_at = now
            self._overview = asyncio.create_task(self._read_overview())
        return await asyncio.shield(self._overview)

    async def _read_overview(self) -> str:
        try:
            return json_text(await documents.overview(self._admin))
        except (KafkaError, OSError) as error:
            return json_text({"error": _text(error)})


async def _respond(reading: Awaitable[Any]) -> web.Response:
    try:
        return _json(await reading)
    except KafkaError as error:
        status = 403 if error.code in _NOT_AUTHORIZED else 404 if error.code in _UNKNOWN else 502
        return _json({"error": _text(error)}, status)


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json_text(document), content_type="application/json")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
