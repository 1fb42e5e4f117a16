"""How an admin client sends requests: to any broker, one broker, the controller or a coordinator (shell).

All requests are sent again after retriable errors, until the deadline of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from tidelog.clients.config.client_config import AdminConfig
from tidelog.clients.config.environment import Environment
from tidelog.clients.groups.coordinator_lookup import GROUP_KEY_TYPE, CoordinatorLookup
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.connection import Authenticator, BrokerConnection
from tidelog.clients.transport.failures import COORDINATOR_MOVED, failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT")

_TOPIC_IDLE_MS = 300_000


class AdminRequests:
    """The connection of one admin client to its cluster; `client` can be used after `start`."""

    def __init__(
        self, config: AdminConfig, environment: Environment | None, authenticator: Authenticator | None
    ) -> None:
        self.config = config
        self.client: ClusterClient
        self._environment = environment
        self._authenticator = authenticator
        self._is_started = False
        self._is_closed = False

    async def start(self) -> None:
        """Connect to the cluster; raise KafkaError if no bootstrap server responds in time."""
        if self._is_started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the admin client was already started")
        self.client = ClusterClient(
            self.config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=False,
            max_idle_ms=_TOPIC_IDLE_MS,
        )
        await self.client.open(self.client.now_ms() + self.config.default_api_timeout_ms)
        self._is_started = True

    async def close(self) -> None:
        """Close all connections."""
        if self._is_started and not self._is_closed:
            self._is_closed = True
            await self.client.close()

    def deadline_ms(self, timeout_ms: int | None) -> int:
        """Return the deadline of a call that begins now; `timeout_ms` None: `default_api_timeout_ms`.

        Raise KafkaError if the client is not started or is closed.
        """
        if not self._is_started or self._is_closed:
            state = "closed" if self._is_closed else "not started"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the admin client is {state}")
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self.client.now_ms() + limit_ms

    def remaining_ms(self, deadline_ms: int) -> int:
        """Return the time until the deadline, at least 1 ms."""
        return max(1, deadline_ms - self.client.now_ms())

    def coordinator(self, group_id: str) -> CoordinatorLookup:
        """Return a lookup of the group's coordinator."""
        return CoordinatorLookup(self.client, group_id)

    async def retry(self, call: Callable[[], Awaitable[ResultT]], deadline_ms: int) -> ResultT:
        """Return the result of `call`; after a retriable error, call it again with newer metadata.

        Raise the last error at `deadline_ms`, or after `retries`.
        """

        async def attempt() -> ResultT:
            try:
                return await call()
            except KafkaError as error:
                if error.code.retriable:
                    self.client.updater.request_update()
                raise

        return await self.client.retry(attempt, deadline_ms, max_retries=self.config.retries)

    async def for_each_coordinator(
        self,
        keys: tuple[str, ...],
        call: Callable[[CoordinatorLookup], Awaitable[ResultT]],
        deadline_ms: int,
        key_type: int = GROUP_KEY_TYPE,
    ) -> dict[str, ResultT | KafkaError]:
        """Run `call` for each group or transactional id with its coordinator; return results and errors."""

        async def run(key: str) -> ResultT | KafkaError:
            lookup = CoordinatorLookup(self.client, key, key_type)

            async def attempt() -> ResultT:
                try:
                    return await call(lookup)
                except KafkaError as error:
                    if error.code in COORDINATOR_MOVED:
                        lookup.forget()
                    raise

            try:
                return await self.retry(attempt, deadline_ms)
            except KafkaError as error:
                return error

        return dict(zip(keys, await asyncio.gather(*map(run, keys)), strict=True))

    async def send(
        self,
        request: ApiMessage,
        response: type[ResponseT],
        deadline_ms: int,
        *,
        node_id: BrokerId | None = None,
    ) -> ResponseT:
        """Send to broker `node_id` (None: the least busy broker); return the response."""
        return await self.retry(
            lambda: self.client.network.request(
                node_id, request, response, timeout_ms=self.remaining_ms(deadline_ms)
            ),
            deadline_ms,
        )

    async def controller_connection(self) -> BrokerConnection:
        """Return a connection to the controller; to any broker, which forwards, if none is known."""
        controller_id = self.client.metadata.controller_id
        if controller_id in self.client.metadata.brokers:
            return await self.client.network.connection(controller_id)
        return await self.client.network.any_connection()

    async def send_to_controller(
        self, request: ApiMessage, response: type[ResponseT], deadline_ms: int
    ) -> ResponseT:
        """Send to the controller; return the response."""
        return await self.send_to_controller_for_version(
            request.api_key, lambda version: request, response, deadline_ms
        )

    async def send_to_controller_for_version(
        self,
        api_key: int,
        make: Callable[[int], ApiMessage],
        response: type[ResponseT],
        deadline_ms: int,
    ) -> ResponseT:
        """Send the request that `make` builds for the negotiated version to the controller."""

        async def call() -> ResponseT:
            connection = await self.controller_connection()
            request = make(connection.version_of(api_key))
            timeout_ms = self.remaining_ms(deadline_ms)
            received = await connection.request(request, response, timeout_ms=timeout_ms)
            _raise_if_not_controller(received)
            return received

        return await self.retry(call, deadline_ms)


def unique_names(names: Iterable[str], argument: str) -> tuple[str, ...]:
    """Return each name once; raise TypeError for a single string instead of a list."""
    if isinstance(names, str | bytes):
        raise TypeError(f"{argument}={names!r}: give a list of names")
    return tuple(dict.fromkeys(names))


def result_for(results: Mapping[KeyT, ResultT | KafkaError], key: KeyT) -> ResultT:
    """Return the result for `key`; raise its error, or an error if the response has no result for it."""
    result = results.get(key)
    if result is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response has no result for {key}")
    if isinstance(result, KafkaError):
        raise result
    return result


def error_or_none(error_code: int, subject: str, message: str | None = None) -> KafkaError | None:
    """Return the error of one item in a response; None if the code is NONE."""
    return None if error_code == ErrorCode.NONE else failure(error_code, subject, message)


def _raise_if_not_controller(response: ApiMessage) -> None:
    """Raise NOT_CONTROLLER if any item of the response has it; the request is then sent again."""
    for name in ("topics", "responses", "results"):
        for item in getattr(response, name, None) or ():
            if getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is not the active controller")
