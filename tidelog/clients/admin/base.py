"""Life of an admin client and how it sends: to any broker, to the controller, again after passing errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tidelog.clients.config.client_config import AdminConfig, make_config
from tidelog.clients.config.environment import Environment
from tidelog.clients.groups.coordinator_lookup import GROUP_KEY_TYPE, CoordinatorLookup
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.connection import Authenticator, BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT")
SelfT = TypeVar("SelfT", bound="AdminBase")

COORDINATOR_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_TOPIC_IDLE_MS = 300_000


def name_tuple(names: Iterable[str], what: str) -> tuple[str, ...]:
    """`names`, each once; TypeError for a single text, whose characters would pass for names."""
    if isinstance(names, str | bytes):
        raise TypeError(f"{what}={names!r}: give a list of names")
    return tuple(dict.fromkeys(names))


class AdminBase:
    """Start, close, and the ways of sending that all calls share."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        environment: Environment | None = None,
        authenticator: Authenticator | None = None,
        **options: Any,
    ) -> None:
        self.config = make_config(AdminConfig, {"bootstrap_servers": bootstrap_servers, **options})
        self._environment = environment
        self._authenticator = authenticator
        self._started = False
        self._is_closed = False

    async def start(self) -> None:
        """Connect to the cluster; KafkaError when none of the bootstrap servers answers in time."""
        if self._started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the admin client was already started")
        self._client = ClusterClient(
            self.config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=False,
            max_idle_ms=_TOPIC_IDLE_MS,
        )
        await self._client.open(self._client.now_ms() + self.config.default_api_timeout_ms)
        self._started = True

    async def __aenter__(self: SelfT) -> SelfT:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect."""
        if self._started and not self._is_closed:
            self._is_closed = True
            await self._client.close()

    def _deadline_ms(self, timeout_ms: int | None) -> int:
        if not self._started or self._is_closed:
            state = "closed" if self._is_closed else "not started"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the admin client is {state}")
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._client.now_ms() + limit

    def _left_ms(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self._client.now_ms())

    def _coordinator(self, group_id: str) -> CoordinatorLookup:
        return CoordinatorLookup(self._client, group_id)

    async def _retrying(self, call: Callable[[], Awaitable[ResultT]], deadline_ms: int) -> ResultT:
        """Run `call` again while it raises errors that may pass, until `deadline_ms`."""
        attempt = 0
        while True:
            try:
                return await call()
            except KafkaError as error:
                if not error.code.retriable or attempt >= self.config.retries:
                    raise
                delay_ms = self._client.backoff.delay_ms(attempt, self._client.environment.rng)
                if self._client.now_ms() + delay_ms >= deadline_ms:
                    raise
            self._client.updater.request_update()
            await asyncio.sleep(delay_ms / 1000)
            attempt += 1

    async def _for_each(
        self,
        keys: tuple[str, ...],
        call: Callable[[CoordinatorLookup], Awaitable[ResultT]],
        deadline_ms: int,
        key_type: int = GROUP_KEY_TYPE,
    ) -> dict[str, ResultT | KafkaError]:
        """Run `call` for every group or transactional id at its coordinator, again after passing errors."""

        async def one(key: str) -> ResultT | KafkaError:
            lookup = CoordinatorLookup(self._client, key, key_type)

            async def attempt() -> ResultT:
                try:
                    return await call(lookup)
                except KafkaError as error:
                    if error.code in COORDINATOR_MOVED:
                        lookup.forget()
                    raise

            try:
                return await self._retrying(attempt, deadline_ms)
            except KafkaError as error:
                return error

        return dict(zip(keys, await asyncio.gather(*map(one, keys)), strict=True))

    async def _ask_any(self, request: ApiMessage, response: type[ResponseT], deadline_ms: int) -> ResponseT:
        """Ask whichever broker is least busy."""
        return await self._ask_node(None, request, response, deadline_ms)

    async def _ask_node(
        self, node_id: BrokerId | None, request: ApiMessage, response: type[ResponseT], deadline_ms: int
    ) -> ResponseT:
        """Ask one broker (None: any)."""
        return await self._retrying(
            lambda: self._client.network.request(
                node_id, request, response, timeout_ms=self._left_ms(deadline_ms)
            ),
            deadline_ms,
        )

    async def _controller(self) -> BrokerConnection:
        """A connection to the controller, or to any broker when none is named (it forwards)."""
        controller_id = self._client.metadata.controller_id
        if controller_id in self._client.metadata.brokers:
            return await self._client.network.connection(controller_id)
        return await self._client.network.any_connection()

    async def _ask_controller(
        self,
        make: Callable[[int], ApiMessage],
        api_key: int,
        response: type[ResponseT],
        deadline_ms: int,
    ) -> ResponseT:
        """Ask the controller with what `make` makes for the version in use."""

        async def call() -> ResponseT:
            connection = await self._controller()
            request = make(connection.version_of(api_key))
            answer = await connection.request(request, response, timeout_ms=self._left_ms(deadline_ms))
            _raise_if_not_controller(answer)
            return answer

        return await self._retrying(call, deadline_ms)


def _raise_if_not_controller(answer: ApiMessage) -> None:
    """Turn NOT_CONTROLLER in any item of the answer into an error, which is retried elsewhere."""
    for name in ("topics", "responses", "results"):
        for item in getattr(answer, name, None) or ():
            if getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the broker asked is not the controller any more")


def one_result(results: Mapping[KeyT, ResultT | KafkaError], key: KeyT) -> ResultT:
    """The result for `key`; raises its error, or one that says that the answer lacks it."""
    result = results.get(key)
    if result is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer has no {key}")
    if isinstance(result, KafkaError):
        raise result
    return result
