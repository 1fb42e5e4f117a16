"""The settings with which clients of several libraries connect to a cluster."""

from __future__ import annotations

import ssl
from dataclasses import field
from pathlib import Path
from typing import Any

from tidelog.base.dataclass import dataclass
from tidelog.security.jaas import jaas_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The servers, and how one user authenticates; the representation hides the password.

    `ca_path`: a PEM file with the authority; None without TLS. `key_path`: a PEM file with the key and the
    certificate of the user; None without one. `mechanism`: the SASL mechanism; None without SASL.
    """

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    ca_path: Path | None = None
    key_path: Path | None = None
    mechanism: str | None = None
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def properties(self) -> dict[str, str]:
        """The properties of Kafka's Java clients and tools, and of `--command-config`."""
        properties = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.protocol}
        if self.ca_path is not None:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_path)}
        if self.key_path is not None:
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.key_path)}
        if self.mechanism is not None:
            credentials = {"username": self.user, "password": self.password}
            properties |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": jaas_text(self.mechanism, credentials),
            }
        return properties

    @property
    def tidelog(self) -> dict[str, Any]:
        """The options of Producer, Consumer and Admin."""
        return {key.replace(".", "_"): value for key, value in self.properties.items()}

    @property
    def confluent_kafka(self) -> dict[str, str | int | float | bool]:
        """The configuration of confluent-kafka and other clients with librdkafka."""
        properties: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.protocol,
        }
        if self.ca_path is not None:
            properties["ssl.ca.location"] = str(self.ca_path)
        if self.key_path is not None:
            key = str(self.key_path)
            properties |= {"ssl.key.location": key, "ssl.certificate.location": key}
        if self.mechanism is not None:
            properties |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return properties

    @property
    def aiokafka(self) -> dict[str, Any]:
        """The arguments of aiokafka's clients, which those of kafka-python understand, too."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.protocol,
        }
        if self.ca_path is not None:
            context = ssl.create_default_context(cafile=str(self.ca_path))
            if self.key_path is not None:
                context.load_cert_chain(self.key_path)
            arguments["ssl_context"] = context
        if self.mechanism is not None:
            arguments |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return arguments

    @property
    def kafka_python(self) -> dict[str, Any]:
        """The arguments of kafka-python's clients."""
        return self.aiokafka
