"""The HTTP server of the console.

    /                                   the page, and its files in /static
    /api/console                        the user, and what this console can do
    /api/overview, /api/topics, ...     documents of the pages
    /api/topics/NAME/tier               what the object store has of a topic
    /api/topics/NAME/records            records of one partition
    /api/events                         server-sent events: the overview every EVENT_INTERVAL_S, or more
                                        rarely if reading it takes long
    POST /api/topics, /api/topics/NAME/records, /api/groups/NAME/offsets
                                        changes, if the console allows writes

Errors: {"error": ...} with status 400 (invalid values), 403 (not authorized), 404 (unknown) or 502 (others).

Bounds: EVENT_STREAMS_MAX streams of events, EVENT_STREAMS_PER_USER_MAX of one user; the streams of a session
share one reading of the overview. SEARCHES_MAX searches at a time, and SEARCHES_WAITING_MAX that wait.
Further streams and searches get 503: a search continues when its browser has closed. A change has at most
CHANGE_BYTES_MAX.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from tidelog.cli.console import changes, documents
from tidelog.cli.console.access import AccessPolicy, add_headers, session_of
from tidelog.cli.console.record_search import InvalidSearchError, RecordSearch, find_records
from tidelog.cli.console.session import EVENT_INTERVAL_S, ClusterSession, error_text
from tidelog.cli.console.tier_cost import NO_PRICES, TierPrices
from tidelog.cli.output import json_text
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
from tidelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from tidelog.cli.console.schemas.decoding import SchemaDecoder

STATIC: Final = Path(__file__).parent / "static"
READING_SHARE_MAX: Final = 0.1
"""The share of time in which the overview may be read: a large cluster is read more rarely."""
EVENT_STREAMS_MAX: Final = 16
EVENT_STREAMS_PER_USER_MAX: Final = 4
SEARCHES_MAX: Final = 4
SEARCHES_WAITING_MAX: Final = 16
CHANGE_BYTES_MAX: Final = 1 << 20
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
_NAMED_PAGES: Final[dict[str, Callable[[Admin, str], Awaitable[Any]]]] = {
    "topics": documents.topic,
    "groups": documents.group,
    "share-groups": documents.share_group,
}


class ConsoleServer:
    """The pages of one cluster, for the users that `access` admits."""

    def __init__(
        self,
        access: AccessPolicy,
        decoder: SchemaDecoder | None = None,
        prices: TierPrices = NO_PRICES,
    ) -> None:
        self._access = access
        self._decoder = decoder
        self._prices = prices
        self._search_limit = asyncio.Semaphore(SEARCHES_MAX)
        self._searches = 0
        """The searches that run or wait."""
        self._streams: Counter[str | None] = Counter()
        """The open streams of events of each user; of None if there are no users."""
        app = self.app = web.Application(middlewares=[access.middleware()], client_max_size=CHANGE_BYTES_MAX)
        app.on_response_prepare.append(add_headers)
        app.router.add_get("/", self._page)
        app.router.add_static("/static", STATIC)
        app.router.add_get("/api/console", self._console)
        for name, read in _PAGES.items():
            app.router.add_get(f"/api/{name}", _reader(read))
        for name, read_named in _NAMED_PAGES.items():
            app.router.add_get(f"/api/{name}/{{name}}", _named_reader(read_named))
        app.router.add_get("/api/topics/{name}/tier", self._tier)
        app.router.add_get("/api/topics/{name}/records", self._records)
        # A response to HEAD has no body, whose writing would detect that the browser has closed.
        app.router.add_get("/api/events", self._events, allow_head=False)
        app.router.add_post("/api/topics", self._create_topic)
        app.router.add_post("/api/topics/{name}/records", self._write_record)
        app.router.add_post("/api/groups/{name}/offsets", self._reset_offsets)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(STATIC / "index.html")

    async def _console(self, request: web.Request) -> web.StreamResponse:
        return _json(
            {
                "user": self._access.user_of(request),
                "allows_writes": self._access.allows_writes,
                "has_schemas": self._decoder is not None,
            }
        )

    async def _tier(self, request: web.Request) -> web.StreamResponse:
        session, name = session_of(request), request.match_info["name"]

        async def read() -> dict[str, Any]:
            topic = await documents.require_topic(session.admin, name)
            tier = await session.tier.document(name, [each.partition for each in topic.partitions])
            return {**tier, "cost": self._prices.cost(tier["objects"], tier["size_bytes"])}

        return await _respond(read())

    # --- records --------------------------------------------------------------------------

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
            return await _respond(self._find(session_of(request), search))
        finally:
            self._searches -= 1

    async def _find(self, session: ClusterSession, search: RecordSearch) -> dict[str, Any]:
        topic = await documents.require_topic(session.admin, search.partition.topic)
        if all(each.partition != search.partition.partition for each in topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{search.partition} does not exist")
        options = session.consumer_options
        async with self._search_limit, Consumer(session.bootstrap, **options) as consumer:
            return await find_records(consumer, search, self._decoder)

    # --- changes --------------------------------------------------------------------------

    async def _create_topic(self, request: web.Request) -> web.StreamResponse:
        session = session_of(request)
        return await _change(request, lambda document: changes.create_topic(session.admin, document))

    async def _write_record(self, request: web.Request) -> web.StreamResponse:
        session, topic = session_of(request), request.match_info["name"]
        return await _change(
            request,
            lambda document: changes.write_record(
                session.bootstrap, session.producer_options, topic, document
            ),
        )

    async def _reset_offsets(self, request: web.Request) -> web.StreamResponse:
        session, group = session_of(request), request.match_info["name"]
        return await _change(request, lambda document: changes.reset_offsets(session.admin, group, document))

    # --- events ---------------------------------------------------------------------------

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send the overview until the browser, the session or the console ends."""
        user = self._access.user_of(request)
        if self._streams.total() >= EVENT_STREAMS_MAX:
            return _json({"error": f"allowed are {EVENT_STREAMS_MAX} streams of events"}, 503)
        if user is not None and self._streams[user] >= EVENT_STREAMS_PER_USER_MAX:
            return _json(
                {"error": f"allowed are {EVENT_STREAMS_PER_USER_MAX} streams of events of a user"}, 503
            )
        session = session_of(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._streams[user] += 1
        try:
            await response.prepare(request)
            while True:
                began = asyncio.get_running_loop().time()
                text = await session.shared_overview()
                await response.write(f"event: overview\ndata: {text}\n\n".encode())
                elapsed = asyncio.get_running_loop().time() - began
                await asyncio.sleep(max(EVENT_INTERVAL_S, elapsed / READING_SHARE_MAX))
        except ConnectionResetError:
            return response
        finally:
            self._streams[user] -= 1
            self._streams = +self._streams  # Without users that have no stream.


def _reader(
    read: Callable[[Admin], Awaitable[Any]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def respond(request: web.Request) -> web.StreamResponse:
        return await _respond(read(session_of(request).admin))

    return respond


def _named_reader(
    read: Callable[[Admin, str], Awaitable[Any]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def respond(request: web.Request) -> web.StreamResponse:
        return await _respond(read(session_of(request).admin, request.match_info["name"]))

    return respond


async def _change(
    request: web.Request, change: Callable[[dict[str, Any]], Awaitable[Any]]
) -> web.StreamResponse:
    try:
        document = json.loads(await request.read())
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return _json({"error": "the body of a change is a JSON object"}, 400)
    try:
        return await _respond(change(document))
    except changes.InvalidChangeError as error:
        return _json({"error": str(error)}, 400)


async def _respond(reading: Awaitable[Any]) -> web.Response:
    try:
        return _json(await reading)
    except KafkaError as error:
        status = 403 if error.code in _NOT_AUTHORIZED else 404 if error.code in _UNKNOWN else 502
        return _json({"error": error_text(error)}, status)


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json_text(document), content_type="application/json")
