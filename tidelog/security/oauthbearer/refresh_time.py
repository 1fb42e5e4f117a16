"""When a client replaces its token, before it expires: the keys `sasl.login.refresh.*`.

Source: ExpiringCredentialRefreshingLogin of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.security.oauthbearer.token import BearerToken


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSettings:
    """`window_factor` and `window_jitter` are parts of the lifetime of a token.

    `min_period_ms`: the time for which a new token is used at least. `buffer_ms`: the time before the
    expiration at which the token must have been replaced.
    """

    window_factor: float
    window_jitter: float
    min_period_ms: int
    buffer_ms: int


def refresh_time_ms(token: BearerToken, settings: RefreshSettings, now_ms: int, random_part: float) -> int:
    """Return when `token` should be replaced, in milliseconds since 1970.

    `random_part` is a random number from 0 to 1, so that the clients do not replace their tokens all at once.
    """
    factor = settings.window_factor + settings.window_jitter * random_part
    expires_ms = token.expires_ms
    if now_ms + settings.min_period_ms + settings.buffer_ms > expires_ms:
        # The lifetime is too short for both times.
        return now_ms + int((expires_ms - now_ms) * factor)
    begins_ms = now_ms if token.issued_ms is None else token.issued_ms
    proposed_ms = begins_ms + int((expires_ms - begins_ms) * factor)
    latest_ms = expires_ms - settings.buffer_ms
    return max(min(proposed_ms, latest_ms), now_ms + settings.min_period_ms)
