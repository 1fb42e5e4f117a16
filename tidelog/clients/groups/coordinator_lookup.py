"""Finds the coordinator of a group or a transactional id, and sends requests to it (shell)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.failures import COORDINATOR_LOST, failure
from tidelog.clients.transport.network import COORDINATION
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
_BATCHED_VERSION = 4

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class CoordinatorLookup:
    """The coordinator of a group or transactional id; looked up when needed, and again after errors."""

    def __init__(self, client: ClusterClient, key: str, key_type: int = GROUP_KEY_TYPE) -> None:
        self.key = key
        self.node_id: BrokerId | None = None
        self._client = client
        self._key_type = key_type
        kind = "group" if key_type == GROUP_KEY_TYPE else "transactional id"
        self._subject = f"coordinator of {kind} {key!r}"

    def forget(self) -> None:
        """Forget the coordinator; the next request looks it up again."""
        self.node_id = None

    def disconnect(self) -> None:
        """Close the connection to the coordinator; pending requests fail."""
        if self.node_id is not None:
            self._client.network.disconnect(self.node_id, COORDINATION)

    async def find(self, deadline_ms: int) -> BrokerId:
        """Return the coordinator's broker id; retry the lookup until `deadline_ms`."""
        if self.node_id is None:
            self.node_id = await self._client.retry(self._look_up, deadline_ms)
        return self.node_id

    async def request(
        self,
        message: ApiMessage,
        response: type[ResponseT],
        deadline_ms: int,
        *,
        timeout_ms: int | None = None,
        highest_version: int | None = None,
    ) -> ResponseT:
        """Send a request to the coordinator; return its response.

        `deadline_ms` limits the lookup, `timeout_ms` the time for the response (None: `request_timeout_ms`).
        After a connection error, the next request looks up the coordinator again.
        """
        return await self.request_for_version(
            message.api_key,
            lambda version: message,
            response,
            deadline_ms,
            timeout_ms=timeout_ms,
            highest_version=highest_version,
        )

    async def request_for_version(
        self,
        api_key: int,
        make: Callable[[int], ApiMessage],
        response: type[ResponseT],
        deadline_ms: int,
        *,
        timeout_ms: int | None = None,
        highest_version: int | None = None,
    ) -> ResponseT:
        """Send the request that `make` builds for the negotiated version; see `request`."""
        node_id = await self.find(deadline_ms)
        try:
            connection = await self._client.network.connection(node_id, COORDINATION)
            message = make(connection.version_of(api_key, highest_version))
            return await connection.request(
                message, response, timeout_ms=timeout_ms, highest_version=highest_version
            )
        except KafkaError as error:
            if error.code in COORDINATOR_LOST and self.node_id == node_id:
                self.forget()
            raise

    async def _look_up(self) -> BrokerId:
        connection = await self._client.network.any_connection()
        version = connection.version_of(ApiKey.FIND_COORDINATOR)
        if version < _BATCHED_VERSION:
            request = FindCoordinatorRequest(key=self.key, key_type=self._key_type)
        else:
            request = FindCoordinatorRequest(coordinator_keys=(self.key,), key_type=self._key_type)
        response = await connection.request(request, FindCoordinatorResponse)
        if version < _BATCHED_VERSION:
            found = BrokerAddress(response.node_id, response.host, response.port)
            code, message = response.error_code, response.error_message
        else:
            if not response.coordinators:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._subject}: none in the response"
                )
            entry = response.coordinators[0]
            found = BrokerAddress(entry.node_id, entry.host, entry.port)
            code, message = entry.error_code, entry.error_message
        if code != ErrorCode.NONE:
            raise failure(code, self._subject, message)
        self._client.network.add_broker(found)
        return found.node_id
