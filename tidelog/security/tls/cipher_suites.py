"""Cipher suites: the names of the TLS standard, which Kafka's ssl.cipher.suites uses, and OpenSSL's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

TLS_1_3_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
"""The suites of TLS 1.3. Python's ssl module enables all of them or, with TLS 1.3 disabled, none."""

TLS_1_2_SUITES: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
}
"""The suites of TLS 1.2 that can be configured, all with forward secrecy, and OpenSSL's names for them."""

DEFAULT_TLS_1_2_SUITES: Final = tuple(suite for suite in TLS_1_2_SUITES if "_CBC_" not in suite)
"""The suites of TLS 1.2 without ssl.cipher.suites."""


def openssl_names(suites: Iterable[str]) -> str:
    """Return OpenSSL's list of the TLS 1.2 suites among `suites`."""
    return ":".join(TLS_1_2_SUITES[suite] for suite in suites if suite in TLS_1_2_SUITES)
