"""Which quota applies to a client, and which clients share it.

The first of these levels that has a quota applies; (user, client-id) means clients with both names:

    1  user and client-id                   its own quota
    2  user and default client-id           each client id of the user has a quota of its own
    3  user                                 all clients of the user share it
    4  default user and client-id           each user has a quota of its own for this client id
    5  default user and default client-id   each pair has a quota of its own
    6  default user                         all clients of a user share it
    7  client-id                            all users share it
    8  default client-id                    all users of a client id share it

Levels that contain a client id do not apply to a client without one.

Source: ClientQuotaManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.cluster.client_quotas import CLIENT_ID, USER
from tidelog.cluster.image import ClientQuotas, QuotaEntity
from tidelog.protocol.framing import RequestHeader

CACHED_CLIENTS_MAX: Final = 1000
NAME_LENGTH_MAX: Final = 256
"""Clients whose longer names begin with the same characters share a quota."""


class Client(NamedTuple):
    """The user and the client id of a request, or of the clients that share a quota; "" means any."""

    user: str
    client_id: str

    @classmethod
    def of(cls, principal: str, header: RequestHeader) -> Client:
        """Return the client of a request; `principal` is type:name."""
        return cls(principal.partition(":")[2], header.client_id or "")


class ResolvedQuota(NamedTuple):
    """The quota of a client; `entity` is the same for all clients that share it."""

    entity: Client
    limit: float


class QuotaResolution:
    """The quotas of one key, for example producer_byte_rate, by entity.

    Bounds: the results for CACHED_CLIENTS_MAX clients are cached.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_enabled = False
        """Whether any client has a quota."""
        self._quotas: ClientQuotas = {}
        self._cache: dict[Client, ResolvedQuota | None] = {}

    def update(self, quotas: ClientQuotas) -> None:
        """Use the quotas of a new metadata image."""
        self._quotas = quotas
        self.is_enabled = any(self.key in values for values in quotas.values())
        self._cache.clear()

    def resolve(self, client: Client) -> ResolvedQuota | None:
        """Return the quota of a client; None if it has none."""
        try:
            return self._cache[client]
        except KeyError:
            pass
        quota = self._find(client)
        if max(map(len, client)) <= NAME_LENGTH_MAX:
            if len(self._cache) >= CACHED_CLIENTS_MAX:
                self._cache.clear()
            self._cache[client] = quota
        return quota

    def _find(self, client: Client) -> ResolvedQuota | None:
        """Return the quota of the first level that has one; the head of the file lists the levels."""
        user, client_id = (name[:NAME_LENGTH_MAX] for name in client)
        if client.client_id:
            explicit_user, default_user = self._pair_limits(client)
        else:
            explicit_user = default_user = None
        for limit, entity in (
            (explicit_user, Client(user, client_id)),
            (self._limit(((USER, client.user),)), Client(user, "")),
            (default_user, Client(user, client_id)),
            (self._limit(((USER, None),)), Client(user, "")),
        ):
            if limit is not None:
                return ResolvedQuota(entity, limit)
        if not client.client_id:
            return None
        limit = self._limit(((CLIENT_ID, client.client_id),))
        if limit is None:
            limit = self._limit(((CLIENT_ID, None),))
        return None if limit is None else ResolvedQuota(Client("", client_id), limit)

    def _pair_limits(self, client: Client) -> tuple[float | None, float | None]:
        """Return the limits of levels 1 or 2, and of levels 4 or 5."""
        limits: list[float | None] = []
        for user in (client.user, None):
            limit = self._limit(((CLIENT_ID, client.client_id), (USER, user)))
            if limit is None:
                limit = self._limit(((CLIENT_ID, None), (USER, user)))
            limits.append(limit)
        return limits[0], limits[1]

    def _limit(self, entity: QuotaEntity) -> float | None:
        values = self._quotas.get(entity)
        return None if values is None else values.get(self.key)
