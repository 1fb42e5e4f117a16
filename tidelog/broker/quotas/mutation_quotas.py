"""The quotas of controller mutations: partitions per second that a client creates and deletes (KIP-599).

The active controller enforces them, with the user and the client id of the request that a broker forwards.
Each client has a token bucket, which one change may make negative. Then newer versions of requests get
THROTTLING_QUOTA_EXCEEDED for further topics; older versions may change them, and get a throttle time.

Source: ControllerMutationQuotaManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.clock import Clock
from tidelog.base.entity_states import Entities
from tidelog.base.sampled_rate import SampledRate, Windows
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.quotas.resolution import Client, QuotaResolution, ResolvedQuota
from tidelog.broker.quotas.token_bucket import TokenBucket
from tidelog.cluster.image import ClientQuotas
from tidelog.protocol.errors import ErrorCode, KafkaError

CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"


class MutationState:
    """The token bucket and the rate of one entity."""

    __slots__ = ("_limit", "bucket", "rate", "throttles")

    def __init__(self, windows: Windows, limit: float, now_ms: int) -> None:
        self.bucket = TokenBucket(windows, limit, now_ms)
        self.rate = SampledRate(windows)
        self.throttles = 0
        self._limit = limit

    def tokens(self, now_ms: int) -> float:
        """Return the available tokens, under the limit that applied to the last request."""
        return self.bucket.tokens(self._limit, now_ms)

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """Return how long the client must wait."""
        self._limit = limit
        return self.bucket.throttle_time_ms(limit, now_ms)

    def record(self, partition_count: int, limit: float, now_ms: int) -> None:
        """Take tokens for changed partitions."""
        self.bucket.take(partition_count, limit, now_ms)
        self.rate.record(partition_count, now_ms)


class MutationQuotas:
    """The token buckets of all clients that have a quota."""

    def __init__(self, clock: Clock, windows: Windows) -> None:
        self.clock = clock
        self.entities: Entities[Client, MutationState] = Entities()
        self._windows = windows
        self._resolution = QuotaResolution(CONTROLLER_MUTATION_RATE)

    def update(self, quotas: ClientQuotas) -> None:
        """Use changed quotas of clients."""
        self._resolution.update(quotas)
        if not self._resolution.is_enabled:
            self.entities.clear()

    def of(self, context: RequestContext, first_strict_version: int) -> MutationQuota:
        """Return the quota of one request; from `first_strict_version` on it is strict."""
        client = Client.of(context.principal, context.header)
        quota = self._resolution.resolve(client) if self._resolution.is_enabled else None
        is_strict = context.header.api_version >= first_strict_version
        if quota is None:
            return MutationQuota(self.clock, None, None, is_strict=is_strict)
        now_ms = self.clock.monotonic_ms()
        state = self.entities.use(
            quota.entity, lambda: MutationState(self._windows, quota.limit, now_ms), now_ms
        )
        return MutationQuota(self.clock, quota, state, is_strict=is_strict)


class MutationQuota:
    """The quota of one request.

    A strict quota accepts no change once the tokens are used up; a permissive one accepts all changes, and
    throttles the client.
    """

    def __init__(
        self, clock: Clock, quota: ResolvedQuota | None, state: MutationState | None, *, is_strict: bool
    ) -> None:
        self._clock = clock
        self._quota = quota
        self._state = state
        self._is_strict = is_strict
        self._throttled_until_ms = 0

    def charge(self, partition_count: int) -> None:
        """Record changed partitions.

        Errors: KafkaError THROTTLING_QUOTA_EXCEEDED if a strict quota is used up.
        """
        if self._quota is None or self._state is None:
            return
        now_ms, limit, state = self._clock.monotonic_ms(), self._quota.limit, self._state
        if not self._is_strict:
            state.record(partition_count, limit, now_ms)
        throttle_time_ms = state.throttle_time_ms(limit, now_ms)
        if throttle_time_ms:
            state.throttles += not self._throttled_until_ms
            self._throttled_until_ms = now_ms + throttle_time_ms
            if self._is_strict:
                code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                raise KafkaError(code, code.text)
        if self._is_strict:
            state.record(partition_count, limit, now_ms)

    def throttle_time_ms(self) -> int:
        """Return the remaining throttle time for the response."""
        return max(0, self._throttled_until_ms - self._clock.monotonic_ms())
