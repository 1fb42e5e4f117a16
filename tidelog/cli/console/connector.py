"""Opens the sessions of a console: with its own credentials, or with those of a user (shell)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tidelog.cli.connection import ClusterConnection
from tidelog.cli.console.credentials import Credentials, PasswordForm, SignInForm, TokenForm
from tidelog.cli.console.session import ClusterSession
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import CONNECT_TIMEOUT_MS
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import AdminConfig, ConsumerConfig, ProducerConfig
from tidelog.security.oauthbearer.messages import OAUTHBEARER
from tidelog.security.plain import PLAIN
from tidelog.security.scram.credentials import SCRAM_MECHANISMS

PASSWORD_MECHANISMS: Final = (*SCRAM_MECHANISMS, PLAIN)
_WRITE_TIMEOUTS: Final = {
    "max_block_ms": CONNECT_TIMEOUT_MS,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 30_000,
}
_PRINCIPAL_CLAIM: Final = "sub"
"""The default of sasl.oauthbearer.sub.claim.name."""
_SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")


class SessionConnector:
    """Connects to one cluster."""

    def __init__(self, cluster: ClusterConnection) -> None:
        self._cluster = cluster

    def sign_in_form(self) -> SignInForm | None:
        """Return how users sign in; None if all clients of the listener are equal.

        Errors: UsageFailure if the listener distinguishes clients in another way.
        """
        options = self._cluster.client_options(AdminConfig)
        protocol = options.get("security_protocol", "PLAINTEXT")
        if protocol not in _SASL_PROTOCOLS:
            if options.get("ssl_keystore_location") or options.get("ssl_keystore_key"):
                raise UsageFailure(
                    "users cannot sign in: the connection has a certificate; allowed are listeners with SASL,"
                    " or without client certificates"
                )
            return None
        mechanism = options.get("sasl_mechanism")
        if mechanism == OAUTHBEARER:
            return TokenForm(options.get("sasl_oauthbearer_sub_claim_name", _PRINCIPAL_CLAIM))
        if mechanism in PASSWORD_MECHANISMS:
            return PasswordForm(mechanism)
        allowed = ", ".join((*PASSWORD_MECHANISMS, OAUTHBEARER))
        raise UsageFailure(f"users cannot sign in: sasl.mechanism={mechanism}; allowed are {allowed}")

    async def open(self) -> ClusterSession:
        """Open a session with the credentials of the connection itself. Errors: KafkaError."""
        return await _open(self._cluster)

    async def open_as(self, credentials: Credentials) -> ClusterSession:
        """Open a session with the credentials of a user. Errors: KafkaError."""
        return await _open(self._cluster, credentials.client_options)


async def _open(
    cluster: ClusterConnection, credentials: Mapping[str, Any] = MappingProxyType({})
) -> ClusterSession:
    defaults = {"default_api_timeout_ms": CONNECT_TIMEOUT_MS}
    # Reading must not create a topic, or change the offsets of a group.
    own: dict[str, Any] = {"allow_auto_create_topics": False, "enable_auto_commit": False, "group_id": None}
    consumer_options = {**cluster.client_options(ConsumerConfig, defaults), **own, **credentials}
    producer_options = {**cluster.client_options(ProducerConfig, _WRITE_TIMEOUTS), **credentials}
    admin = Admin(cluster.bootstrap, **{**cluster.client_options(AdminConfig, defaults), **credentials})
    await admin.start()
    return ClusterSession(admin, cluster.bootstrap, consumer_options, producer_options)
