"""A cluster of both kinds of nodes with an authorizer, and with SASL_SSL between all of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.kafka.kafka_node import MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.tier.aiven_plugin import FILE_SYSTEM, PLUGIN
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports
from tidelog.security.certificate_authority import DAY, Authority, Identity
from tidelog.security.jaas import LOGIN_MODULES, PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

OURS, KAFKAS = 1, 3
SCRAM_MECHANISM = "SCRAM-SHA-512"
NODE_PASSWORD = "node-secret"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Client(Enum):
    """The listeners for clients."""

    SASL = "CLIENTS"
    TLS = "CERTIFICATES"
    EXPIRED = "EXPIRED"
    OTHER_HOST = "OTHERHOST"


def password_of(user: str) -> str:
    """Return the password of a user in these tests."""
    return f"{user}-secret"


@dataclass(frozen=True)
class Certificates:
    """The files of a trusted authority, and of an untrusted one."""

    root: Path
    authority: Authority
    other: Authority

    @classmethod
    def create(cls, root: Path) -> Certificates:
        """Create the two authorities."""
        root.mkdir()
        certificates = cls(root, Authority.create(), Authority.create("Another CA"))
        certificates.authority.write(root / "ca.pem")
        certificates.other.write(root / "other-ca.pem")
        return certificates

    def write(self, name: str, identity: Identity) -> Path:
        """Write a file with the key and the certificate, and return its path."""
        return identity.write_pem(self.root / f"{name}.pem")


class SecuredCluster:
    """Controllers 100 (Kafka's), 101 and 102 (ours); brokers 1 (ours) and 3 (Kafka's).

    Controllers authenticate with PLAIN, brokers with SCRAM. Our broker has remote storage.
    """

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._files = 0
        self.certificates = Certificates.create(root / "certificates")
        self.cluster = MixedCluster(root, settings={**self._settings(), **(settings or {})})
        self.clients = MixedClients(self.cluster, self.librdkafka("admin"))
        self._ports: dict[tuple[int, Client], int] = {}
        kinds = {100: Engine.KAFKA, 101: Engine.TIDELOG, 102: Engine.TIDELOG}
        enabled = {"remote.log.storage.system.enable": "true"}
        self.controllers = [
            self.cluster.add(number, kind, "controller", enabled) for number, kind in kinds.items()
        ]
        self.brokers = [self._broker(OURS, Engine.TIDELOG), self._broker(KAFKAS, Engine.KAFKA)]
        self.node(Engine.TIDELOG).settings |= {**enabled, **tier_settings(root / "bucket")}

    def start(self) -> None:
        """Format and start all nodes, and wait until each broker knows the other."""
        for node in self.cluster.nodes.values():
            self.cluster.format(
                node, "--add-scram", f"{SCRAM_MECHANISM}=[name=node,password={NODE_PASSWORD}]"
            )
        self.cluster.start(*self.cluster.nodes.values())
        self.clients.wait_for_brokers(OURS, KAFKAS)

    def node(self, engine: Engine) -> Node:
        """Return the broker of a kind."""
        return next(node for node in self.brokers if node.engine is engine)

    def address(self, node: Node, client: Client = Client.SASL) -> str:
        """Return the address of a listener of a broker."""
        return f"127.0.0.1:{self._ports[node.number, client]}"

    def tools(self, engine: Engine, client: Client = Client.SASL) -> KafkaTools:
        """Return Kafka's tools, connected to the broker of a kind."""
        return KafkaTools(self.cluster.jars, self.address(self.node(engine), client))

    def librdkafka(self, user: str, mechanism: str = "PLAIN", password: str | None = None) -> dict[str, str]:
        """Return the options of librdkafka for a user."""
        return {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.certificates.root / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password_of(user) if password is None else password,
        }

    def sasl_file(self, user: str, mechanism: str = "PLAIN", **changes: str) -> Path:
        """Write a file for `--command-config`; `password` and keys with underscores override its values."""
        password = changes.pop("password", password_of(user))
        jaas = f'{LOGIN_MODULES[mechanism]} required username="{user}" password="{password}";'
        return self._file(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": jaas,
                **self._trust("ca"),
                **_keys(changes),
            }
        )

    def tls_file(self, identity: Identity | None, **changes: str) -> Path:
        """Write a file for `--command-config` with the certificate of a client."""
        own = {}
        if identity is not None:
            path = self.certificates.write(f"client-{identity.certificate.serial_number:x}", identity)
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
        return self._file({"security.protocol": "SSL", **self._trust("ca"), **own, **_keys(changes)})

    def authority_file(self, name: str) -> str:
        """Return the path of the certificates of an authority: ca or other-ca."""
        return str(self.certificates.root / f"{name}.pem")

    def active_controller(self) -> Node:
        """Wait for a leader of the quorum, and return this controller."""
        leaders: list[Node] = []

        def is_leader() -> bool:
            text = re.search(r"LeaderId:\s+(\d+)", self.quorum("describe", "--status").stdout)
            leaders[:] = [self.cluster.nodes[int(text[1])]] if text else []
            return bool(leaders) and leaders[0].process is not None

        wait_until(is_leader, timeout_s=WITHIN_S)
        return leaders[0]

    def quorum(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Return the output of `kafka-metadata-quorum` as the user of the nodes."""
        servers = ",".join(node.address for node in self.controllers if node.process is not None)
        config = self.sasl_file("node")
        tools = KafkaTools(self.cluster.jars, servers, "--bootstrap-controller")
        return tools.call("kafka-metadata-quorum", "--command-config", str(config), *arguments)

    def elect_controller_of(self, engine: Engine) -> Node:
        """Restart leading controllers until one of a kind leads, and return it."""
        while (leader := self.active_controller()).engine is not engine:
            self.cluster.stop(leader)
            self.active_controller()
            self.cluster.start(leader)
        return leader

    def _broker(self, number: int, engine: Engine) -> Node:
        node = self.cluster.add(number, engine, "broker")
        internal, *ports = free_ports(1 + len(Client))
        self._ports |= {(number, client): port for client, port in zip(Client, ports, strict=True)}
        self._ports[number, Client.SASL] = node.port
        listeners = [f"{client.value}://{self.address(node, client)}" for client in Client]
        node.settings |= {
            "listeners": ",".join([f"INTERNAL://127.0.0.1:{internal}", *listeners]),
            "inter.broker.listener.name": "INTERNAL",
        }
        return node

    def _settings(self) -> dict[str, str]:
        authority = self.certificates.authority
        own_certificate = self.certificates.write("node", authority.issue("node"))
        expired = self.certificates.write("expired", authority.issue("node", lifetime=-DAY))
        other_host = self.certificates.write("other-host", authority.issue("node", ["broker.example"]))
        own = f'username="node" password="{NODE_PASSWORD}"'
        nodes = f'{PLAIN_LOGIN_MODULE} required {own} user_node="{NODE_PASSWORD}";'
        users = " ".join(f'user_{user}="{password_of(user)}"' for user in ("admin", "node", "alice", "bob"))
        return {
            "listener.security.protocol.map": (
                "CONTROLLER:SASL_SSL,INTERNAL:SASL_SSL,CLIENTS:SASL_SSL,"
                "CERTIFICATES:SSL,EXPIRED:SSL,OTHERHOST:SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own_certificate),
            "listener.name.expired.ssl.keystore.location": str(expired),
            "listener.name.otherhost.ssl.keystore.location": str(other_host),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.root / "ca.pem"),
            "listener.name.certificates.ssl.client.auth": "required",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": SCRAM_MECHANISM,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": nodes,
            "listener.name.internal.sasl.enabled.mechanisms": SCRAM_MECHANISM,
            "listener.name.internal.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required {own};",
            "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} required {users};",
            "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required;",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required;",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:node;User:admin",
            "delegation.token.secret.key": "key of all nodes",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "2",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "2",
            "transaction.state.log.min.isr": "1",
        }

    def _trust(self, name: str) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority_file(name)}

    def _file(self, properties: Mapping[str, str]) -> Path:
        text = "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))
        self._files += 1
        path = self._root / f"client-{self._files}.properties"
        path.write_text(text)
        return path


def tier_settings(bucket: Path) -> dict[str, str]:
    """Return the settings of remote storage of the broker that has any."""
    bucket.mkdir()
    topic = "rlmm.config.remote.log.metadata.topic"
    return {
        "remote.log.storage.manager.class.name": PLUGIN,
        "remote.log.metadata.manager.listener.name": "INTERNAL",
        "rsm.config.storage.backend.class": FILE_SYSTEM,
        "rsm.config.storage.root": str(bucket),
        "rsm.config.chunk.size": "100000",
        f"{topic}.num.partitions": "1",
        f"{topic}.replication.factor": "2",
        f"{topic}.min.isr": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }


def _keys(changes: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in changes.items()}
