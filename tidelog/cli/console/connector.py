"""Opens the sessions of a console: with its own credentials, or with those of a user (shell)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tidelog.cli.connection import ClusterConnection
from tidelog.cli.console.session import ClusterSession
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import CONNECT_TIMEOUT_MS
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import AdminConfig, ConsumerConfig, ProducerConfig
from tidelog.security.jaas import jaas_text
from tidelog.security.plain import PLAIN
from tidelog.security.scram.credentials import SCRAM_MECHANISMS

PASSWORD_MECHANISMS: Final = (*SCRAM_MECHANISMS, PLAIN)
_WRITE_TIMEOUTS: Final = {
    "max_block_ms": CONNECT_TIMEOUT_MS,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 30_000,
}
_SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")


class SessionConnector:
    """Connects to one cluster."""

    def __init__(self, cluster: ClusterConnection) -> None:
        self._cluster = cluster

    def has_users(self) -> bool:
        """Return whether users sign in with a password; else all clients of the listener are equal.

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
            return False
        mechanism = options.get("sasl_mechanism")
        if mechanism not in PASSWORD_MECHANISMS:
            allowed = ", ".join(PASSWORD_MECHANISMS)
            raise UsageFailure(
                f"users cannot sign in: sasl.mechanism={mechanism} has no passwords; allowed are {allowed}"
            )
        return True

    async def open(self) -> ClusterSession:
        """Open a session with the credentials of the connection itself. Errors: KafkaError."""
        return await _open(self._cluster)

    async def open_as(self, user: str, password: str) -> ClusterSession:
        """Open a session with the credentials of a user. Errors: KafkaError."""
        mechanism = self._cluster.client_options(AdminConfig)["sasl_mechanism"]
        credentials = {"sasl_jaas_config": jaas_text(mechanism, {"username": user, "password": password})}
        explicit_options = {**self._cluster.explicit_options, **credentials}
        return await _open(replace(self._cluster, explicit_options=explicit_options))


async def _open(cluster: ClusterConnection) -> ClusterSession:
    defaults = {"default_api_timeout_ms": CONNECT_TIMEOUT_MS}
    # Reading must not create a topic, or change the offsets of a group.
    own: dict[str, Any] = {"allow_auto_create_topics": False, "enable_auto_commit": False, "group_id": None}
    consumer_options = {**cluster.client_options(ConsumerConfig, defaults), **own}
    producer_options = cluster.client_options(ProducerConfig, _WRITE_TIMEOUTS)
    admin = Admin(cluster.bootstrap, **cluster.client_options(AdminConfig, defaults))
    await admin.start()
    return ClusterSession(admin, cluster.bootstrap, consumer_options, producer_options)
