"""The security of a cluster on this machine: a development CA, users, and the settings of nodes and clients.

    <folder>/ca.pem          the certificate of the authority
    <folder>/node.pem        key and certificate of all nodes
    <folder>/<user>.pem      key and certificate of a user, with the protocol SSL
    <folder>/security.json   the description, with passwords

Files with secrets have mode 0600. Nodes authenticate as the user `node`, which is a super user: with a
certificate if the protocol is SSL, else with PLAIN, because controllers that elect a leader cannot use SCRAM.

Errors: ValueError for a description that cannot be used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.local_cluster.private_files import write_private
from tidelog.protocol.errors import KafkaError
from tidelog.security.jaas import jaas_text
from tidelog.security.scram.credentials import SCRAM_MECHANISMS, random_text

SECURITY_FOLDER: Final = "security"
SECURITY_FILE: Final = "security.json"
NODE_USER: Final = "node"
SECURE_LISTENER: Final = "SECURE"
_AUTHORITY: Final = "ca"
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
"""The names of users that have a certificate: each is the name of a file, and a common name."""
_LIFETIME: Final = timedelta(days=3650)
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS)
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How clients and nodes of a cluster authenticate.

    `protocol`: SSL, SASL_PLAINTEXT or SASL_SSL, on all listeners. `mechanism`: PLAIN, SCRAM-SHA-256 or
    SCRAM-SHA-512, for users. `users`: passwords by name, hidden in the representation; with SSL, each user
    has a certificate instead. `super_users`: names of users that may do everything. With `authorizer`, other
    users need access control entries.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    super_users: Sequence[str] = ()
    authorizer: bool = True

    def __post_init__(self) -> None:
        if self.protocol not in _PROTOCOLS:
            raise ValueError(f"protocol={self.protocol!r}: allowed are {', '.join(_PROTOCOLS)}")
        if self.mechanism not in _MECHANISMS:
            raise ValueError(f"mechanism={self.mechanism!r}: allowed are {', '.join(_MECHANISMS)}")
        if NODE_USER in self.users:
            raise ValueError(f"users has {NODE_USER!r}, which is the user of the nodes")
        for user in self.users if self.protocol == "SSL" else ():
            if user.lower() == _AUTHORITY or _FILE_NAME.fullmatch(user) is None:
                allowed = f"allowed with SSL are names of files, except {_AUTHORITY!r}"
                raise ValueError(f"users has {user!r}; {allowed}: {_FILE_NAME.pattern}")
        for user in self.super_users:
            if user not in self.users:
                raise ValueError(f"super_users has {user!r}, which is not in users")
            if ";" in user:
                raise ValueError(f"super_users has {user!r}; a semicolon separates the names of super users")


class ClusterSecurity:
    """The security of one cluster, with its files."""

    def __init__(self, security: Security, folder: Path, node_password: str) -> None:
        self.security = security
        self._folder = folder
        self._node_password = node_password

    @classmethod
    def create(cls, security: Security, folder: Path, hosts: Sequence[str] = ()) -> ClusterSecurity:
        """Create the authority, certificates and the description; `hosts` are the addresses of nodes."""
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        node_password = random_text(SYSTEM_RANDOMNESS)
        cluster_security = cls(security, folder, node_password)
        if security.protocol != "SASL_PLAINTEXT":
            cluster_security._issue_certificates(hosts)
        document = {**asdict(security), "node_password": node_password}
        write_private(folder / SECURITY_FILE, json.dumps(document, indent=2) + "\n")
        return cluster_security

    def _issue_certificates(self, hosts: Sequence[str]) -> None:
        # Imported here: cryptography is large, and most clusters of tests have no certificates.
        from tidelog.security.certificate_authority import Authority

        authority = Authority.create("Tidelog development CA", lifetime=_LIFETIME)
        authority.write(self._ca_path)
        names = tuple(dict.fromkeys((*_HOSTS, *hosts)))
        authority.issue(NODE_USER, names, lifetime=_LIFETIME).write_pem(self._key_path(NODE_USER))
        if self.security.protocol == "SSL":
            for user in self.security.users:
                authority.issue(user, (), lifetime=_LIFETIME).write_pem(self._key_path(user))

    @classmethod
    def open(cls, folder: Path) -> ClusterSecurity:
        """Return the security that was created in `folder`. Errors: FileNotFoundError."""
        document: dict[str, Any] = json.loads((folder / SECURITY_FILE).read_text())
        node_password = document.pop("node_password")
        return cls(Security(**document), folder, node_password)

    def node_settings(self) -> dict[str, str]:
        """Return the settings that all nodes have, for the listeners SECURE and CONTROLLER."""
        settings = {
            "listener.security.protocol.map": (
                f"{SECURE_LISTENER}:{self.security.protocol},CONTROLLER:{self.security.protocol}"
            )
        }
        if self.security.protocol != "SASL_PLAINTEXT":
            settings |= self._tls_settings()
        if self.security.protocol != "SSL":
            settings |= self._sasl_settings()
        if self.security.authorizer:
            users = (NODE_USER, *self.security.super_users)
            settings |= {
                "authorizer.class.name": _AUTHORIZER,
                "super.users": ";".join(f"User:{user}" for user in users),
            }
        return settings

    def _tls_settings(self) -> dict[str, str]:
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key_path(NODE_USER)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca_path),
        }
        if self.security.protocol == "SSL":
            settings |= {
                "ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
            }
        return settings

    def _sasl_settings(self) -> dict[str, str]:
        users = {NODE_USER: self._node_password}
        if self.security.mechanism == "PLAIN":
            users |= self.security.users
        options = {
            "username": NODE_USER,
            "password": self._node_password,
            **{f"user_{user}": password for user, password in users.items()},
        }
        return {
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.enabled.mechanisms": ",".join(dict.fromkeys(("PLAIN", self.security.mechanism))),
            **{
                f"listener.name.{name}.plain.sasl.jaas.config": jaas_text("PLAIN", options)
                for name in (SECURE_LISTENER.lower(), "controller")
            },
        }

    def client_settings(self, bootstrap_servers: str, user: str | None = None) -> ClientSettings:
        """Return the settings for clients as `user`; by default as the first super user, or the first user.

        Errors: ValueError for an unknown user, and without users.
        """
        users = self.security.users
        name = user or next(iter((*self.security.super_users, *users)), None)
        if name is None or name not in users:
            raise ValueError(f"user {name!r}: the users of the cluster are {', '.join(users) or 'none'}")
        return self._settings(bootstrap_servers, name, self.security.mechanism, users[name])

    def node_client_settings(self, bootstrap_servers: str) -> ClientSettings:
        """Return the settings for clients as the user of the nodes."""
        return self._settings(bootstrap_servers, NODE_USER, "PLAIN", self._node_password)

    def _settings(self, servers: str, user: str, mechanism: str, password: str) -> ClientSettings:
        protocol = self.security.protocol
        has_sasl = protocol != "SSL"
        return ClientSettings(
            bootstrap_servers=servers,
            protocol=protocol,
            ca_path=None if protocol == "SASL_PLAINTEXT" else self._ca_path,
            key_path=None if has_sasl else self._key_path(user),
            mechanism=mechanism if has_sasl else None,
            user=user,
            password=password,
        )

    async def create_users(self, bootstrap_servers: str) -> None:
        """Create the users of SCRAM in a running cluster. Errors: KafkaError."""
        # Imported here: a cluster without security does not need the client.
        from tidelog.clients.admin.admin import Admin, ScramUpsertion

        mechanism = SCRAM_MECHANISMS.get(self.security.mechanism)
        if self.security.protocol == "SSL" or mechanism is None or not self.security.users:
            return
        upsertions = [
            ScramUpsertion(user=user, password=password, mechanism=mechanism)
            for user, password in self.security.users.items()
        ]
        async with Admin(**self.node_client_settings(bootstrap_servers).tidelog) as admin:
            results = await admin.alter_user_scram_credentials(upsertions)
        for error in results.values():
            if isinstance(error, KafkaError):
                raise error

    async def create_missing_users(self, bootstrap_servers: str) -> None:
        """Create the users of SCRAM if none of them exists in a running cluster. Errors: KafkaError.

        A password that was changed in the cluster stays in use.
        """
        from tidelog.clients.admin.admin import Admin

        async with Admin(**self.node_client_settings(bootstrap_servers).tidelog) as admin:
            existing_users = await admin.describe_user_scram_credentials()
        if existing_users.keys().isdisjoint(self.security.users):
            await self.create_users(bootstrap_servers)

    @property
    def _ca_path(self) -> Path:
        return self._folder / f"{_AUTHORITY}.pem"

    def _key_path(self, user: str) -> Path:
        return self._folder / f"{user}.pem"
