"""Delegation tokens of a cluster of three nodes with an authorizer: all requests, login by our clients."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.messages.version_fields import fit_to_version
from tests.support.network.raw_client import RawClient
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import AclBinding, AclFilter, Admin, DelegationToken
from tidelog.clients.admin.types import NewTopic
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.access_control import AclOperation, AclResourceType, PermissionType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tidelog.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tidelog.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tidelog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.registry import APIS, ApiKey, response_type
from tidelog.protocol.schema import ApiMessage
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from tidelog.security.plain import encode_plain
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

T = TypeVar("T")

SECRET = "canary-of-users"
KEY = "canary-of-tokens"
USERS = ("node", "alice", "bob", "carol")
JAAS = (
    f'{PLAIN_LOGIN_MODULE} required username="node" password="{SECRET}" '
    + " ".join(f'user_{user}="{SECRET}"' for user in USERS)
    + ";"
)
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "20",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node",
    "delegation.token.secret.key": KEY,
    "delegation.token.max.lifetime.ms": "600000",
    "delegation.token.expiry.time.ms": "60000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run three nodes, each broker and controller; alice may do everything with topics and groups."""
    with EmbeddedCluster(nodes=3, config=CONFIG) as running:
        wait_until(lambda: len(ThreeNodes(running).brokers()) == 3)
        everything = (AclResourceType.TOPIC, AclResourceType.GROUP)
        allowed = [AclBinding(kind, "*", "User:alice", AclOperation.ALL) for kind in everything]
        assert set(run(running, "node", lambda admin: admin.create_acls(allowed)).values()) == {None}
        yield running


@pytest.fixture
def token(cluster: EmbeddedCluster) -> DelegationToken:
    """Create a token of alice, which bob may renew."""
    return create_token(cluster, "alice", renewers=["User:bob"])


def password_options(cluster: EmbeddedCluster, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{PLAIN_LOGIN_MODULE} required username="{user}" password="{SECRET}";',
    }


def token_options(
    cluster: EmbeddedCluster, token: DelegationToken, mechanism: str = "SCRAM-SHA-256"
) -> dict[str, Any]:
    jaas = f'{SCRAM_LOGIN_MODULE} required username="{token.token_id}" password="{token.password}"'
    return {
        **password_options(cluster, "unknown"),
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{jaas} tokenauth="true";',
    }


def run(cluster: EmbeddedCluster, user: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` as a user with a password."""
    return run_with(password_options(cluster, user), work)


def run_with(options: dict[str, Any], work: Callable[[Admin], Awaitable[T]]) -> T:
    async def run_with_client() -> T:
        async with Admin(**options) as admin:
            return await work(admin)

    return asyncio.run(run_with_client())


def create_token(cluster: EmbeddedCluster, user: str, **options: Any) -> DelegationToken:
    """Create a token as `user`, and wait until every node has it."""
    created = run(cluster, user, lambda admin: admin.create_delegation_token(**options))
    wait_until(lambda: nodes_with(cluster, created.token_id) == 3)
    return created


def nodes_with(cluster: EmbeddedCluster, token_id: str) -> int:
    def has_token(node: BrokerNode) -> bool:
        return token_id in node.services.image().delegation_tokens

    return sum(cluster.run(has_token, node_id) for node_id in (1, 2, 3))


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_with_a_token_has_the_permissions_of_the_owner(
    cluster: EmbeddedCluster, token: DelegationToken, mechanism: str
) -> None:
    options, topic = token_options(cluster, token, mechanism), f"topic-{uuid4().hex[:12]}"

    async def produce_and_consume() -> bytes | None:
        async with Admin(**options) as admin:
            await admin.create_topics([NewTopic(name=topic, num_partitions=3, replication_factor=3)])
        producer = Producer(**options)
        await producer.start()
        await producer.send_and_wait(topic, b"by token")
        await producer.close()
        consumer = Consumer(**options, group_id=topic, auto_offset_reset="earliest")
        await consumer.start()
        consumer.subscribe([topic])
        record = await consumer.getone(20_000)
        await consumer.close()
        return None if record is None else record.value

    assert asyncio.run(produce_and_consume()) == b"by token"


def test_a_token_is_described_by_its_owner_requester_and_renewers(
    cluster: EmbeddedCluster, token: DelegationToken
) -> None:
    for user in ("alice", "bob"):
        assert token in run(cluster, user, lambda admin: admin.describe_delegation_tokens())
    assert token not in run(cluster, "carol", lambda admin: admin.describe_delegation_tokens())
    assert token in run(cluster, "node", lambda admin: admin.describe_delegation_tokens())
    owners_and_found = [
        (["User:alice"], True),
        (["User:bob", "User:x"], True),
        (["User:x"], False),
        ([], False),
    ]
    for owners, is_found in owners_and_found:

        def describe(admin: Admin, names: list[str] = owners) -> Awaitable[list[DelegationToken]]:
            return admin.describe_delegation_tokens(names)

        assert (token in run(cluster, "alice", describe)) is is_found


def test_owner_and_renewers_change_a_token_and_others_do_not(
    cluster: EmbeddedCluster, token: DelegationToken
) -> None:
    renewed = run(cluster, "bob", lambda admin: admin.renew_delegation_token(token.hmac, renew_period_ms=10))
    assert renewed < token.expiry_timestamp_ms
    renew = code_of(lambda: run(cluster, "carol", lambda admin: admin.renew_delegation_token(token.hmac)))
    assert renew in (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_EXPIRED)
    expire = code_of(lambda: run(cluster, "carol", lambda admin: admin.expire_delegation_token(token.hmac)))
    assert expire == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    run(cluster, "bob", lambda admin: admin.expire_delegation_token(token.hmac))
    renewal_error = code_of(
        lambda: run(cluster, "alice", lambda admin: admin.renew_delegation_token(token.hmac))
    )
    assert renewal_error == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_removed_token_is_no_longer_accepted(cluster: EmbeddedCluster, token: DelegationToken) -> None:
    options = token_options(cluster, token)
    run_with(options, lambda admin: admin.list_topics())
    run(cluster, "alice", lambda admin: admin.expire_delegation_token(token.hmac))
    wait_until(lambda: nodes_with(cluster, token.token_id) == 0)
    code = code_of(lambda: run_with(options, lambda admin: admin.list_topics()))
    assert code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_password_of_the_owner_is_not_that_of_its_token(
    cluster: EmbeddedCluster, token: DelegationToken
) -> None:
    options = token_options(cluster, token)
    options["sasl_jaas_config"] = options["sasl_jaas_config"].replace(token.password, SECRET)
    code = code_of(lambda: run_with(options, lambda admin: admin.list_topics()))
    assert code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "work",
    [
        lambda admin, token: admin.create_delegation_token(),
        lambda admin, token: admin.renew_delegation_token(token.hmac),
        lambda admin, token: admin.expire_delegation_token(token.hmac),
        lambda admin, token: admin.describe_delegation_tokens(),
    ],
    ids=["create", "renew", "expire", "describe"],
)
def test_a_client_with_a_token_may_not_use_tokens(
    cluster: EmbeddedCluster,
    token: DelegationToken,
    work: Callable[[Admin, DelegationToken], Awaitable[object]],
) -> None:
    options = token_options(cluster, token)
    code = code_of(lambda: run_with(options, lambda admin: work(admin, token)))
    assert code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


# ---- authorization (KIP-373)


def change_entries(
    cluster: EmbeddedCluster,
    kind: AclResourceType,
    name: str,
    operation: AclOperation,
    permission: PermissionType | None,
) -> None:
    """Make exactly one entry exist for carol and a resource; none without `permission`."""
    binding = AclBinding(kind, name, "User:carol", operation)

    async def change(admin: Admin) -> None:
        await admin.delete_acls([AclFilter(principal="User:carol")])
        if permission is not None:
            await admin.create_acls([binding._replace(permission=permission)])

    run(cluster, "node", change)
    expected = [] if permission is None else [(kind, name, operation, permission)]
    wait_until(lambda: all(entries_of_carol(cluster, node_id) == expected for node_id in (1, 2, 3)))


def entries_of_carol(cluster: EmbeddedCluster, node_id: int) -> list[tuple[int, str, int, int]]:
    def entries(node: BrokerNode) -> list[tuple[int, str, int, int]]:
        return [
            (entry.resource_type, entry.resource_name, entry.operation, entry.permission_type)
            for entry in node.services.image().access_control_entries.values()
            if entry.principal == "User:carol"
        ]

    return cluster.run(entries, node_id)


def test_a_token_for_another_owner_needs_create_tokens_on_the_user(cluster: EmbeddedCluster) -> None:
    def create() -> DelegationToken:
        return create_token(cluster, "carol", owner="User:alice")

    right = (AclResourceType.USER, "User:alice", AclOperation.CREATE_TOKENS)
    change_entries(cluster, *right, None)
    assert code_of(create) == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    change_entries(
        cluster, AclResourceType.USER, "User:bob", AclOperation.CREATE_TOKENS, PermissionType.ALLOW
    )
    assert code_of(create) == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    change_entries(cluster, *right, PermissionType.ALLOW)
    created = create()
    assert (created.owner, created.requester) == ("User:alice", "User:carol")
    change_entries(cluster, *right, PermissionType.DENY)
    assert code_of(create) == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert run_with(token_options(cluster, created), lambda admin: admin.list_topics()) is not None


def test_owners_and_renewers_must_be_users(cluster: EmbeddedCluster) -> None:
    owner = code_of(
        lambda: run(cluster, "node", lambda admin: admin.create_delegation_token(owner="Role:alice"))
    )
    assert owner == ErrorCode.INVALID_PRINCIPAL_TYPE
    renewers = ["User:bob", "Group:x"]
    code = code_of(
        lambda: run(cluster, "alice", lambda admin: admin.create_delegation_token(renewers=renewers))
    )
    assert code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_the_number_of_renewers_is_limited(cluster: EmbeddedCluster) -> None:
    renewers = [f"User:{number}" for number in range(1000)]
    assert len(create_token(cluster, "alice", renewers=renewers).renewers) == 1000
    renewers.append("User:one-too-many")
    assert code_of(lambda: create_token(cluster, "alice", renewers=renewers)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("is_by_token", [True, False])
def test_tokens_of_others_need_describe_on_the_token_or_describe_tokens_on_the_owner(
    cluster: EmbeddedCluster, token: DelegationToken, is_by_token: bool
) -> None:
    def is_described() -> bool:
        return token in run(cluster, "carol", lambda admin: admin.describe_delegation_tokens())

    right = (
        (AclResourceType.DELEGATION_TOKEN, token.token_id, AclOperation.DESCRIBE)
        if is_by_token
        else (AclResourceType.USER, "User:alice", AclOperation.DESCRIBE_TOKENS)
    )
    change_entries(cluster, *right, None)
    assert not is_described()
    change_entries(cluster, *right, PermissionType.ALLOW)
    assert is_described()
    change_entries(cluster, *right, PermissionType.DENY)
    assert not is_described()


# ---- versions and secrets


def requests(hmac: bytes) -> list[ApiMessage]:
    return [
        CreateDelegationTokenRequest(max_lifetime_ms=-1),
        DescribeDelegationTokenRequest(owners=None),
        RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1),
        ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=1000),
    ]


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_every_version_is_served(cluster: EmbeddedCluster, token: DelegationToken, listener: str) -> None:
    leader = cluster.run(lambda node: node.services.store.leader)
    assert leader is not None
    port = cluster.run(lambda node: node.bound_port(listener), leader)
    for request in requests(token.hmac):
        api = APIS[request.api_key]
        if listener == "CONTROLLER" and api.key == ApiKey.DESCRIBE_DELEGATION_TOKEN:
            continue
        for version in range(api.lowest, api.highest + 1):
            with RawClient("127.0.0.1", port) as client:
                client.send_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
                message = encode_plain("alice", SECRET)
                client.send_request(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)
                response: Any = client.send_request(
                    fit_to_version(request, version), version, response_type(api.key)
                )
            assert response.error_code == ErrorCode.NONE, (api.name, version)


def test_no_secret_of_a_token_is_logged_or_shown(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    created = create_token(cluster, "alice")
    run_with(token_options(cluster, created), lambda admin: admin.list_topics())
    run(cluster, "alice", lambda admin: admin.renew_delegation_token(created.hmac))
    code_of(lambda: run(cluster, "carol", lambda admin: admin.expire_delegation_token(created.hmac)))
    described = run(cluster, "alice", lambda admin: admin.describe_delegation_tokens())
    image = cluster.run(lambda node: repr(node.services.image().delegation_tokens))
    captured = capfd.readouterr()
    shown = caplog.text + captured.out + captured.err + image + repr(created) + repr(described)
    shown += tidelog_output("log", "dump", "-d", *map(str, metadata_files(cluster)))
    assert created.token_id in shown
    for secret in (KEY, SECRET, created.password, repr(created.hmac)[2:-1], created.hmac.hex()):
        assert secret not in shown


def test_the_hmac_of_a_token_is_not_stored(cluster: EmbeddedCluster, token: DelegationToken) -> None:
    stored = b"".join(path.read_bytes() for path in metadata_files(cluster))
    assert token.token_id.encode() in stored
    for secret in (KEY.encode(), token.hmac, token.password.encode()):
        assert secret not in stored


def metadata_files(cluster: EmbeddedCluster) -> list[Path]:
    """Return the segments of the metadata log of one node."""
    [folder] = cluster.run(lambda node: node.services.config.log_dirs)
    return sorted((Path(folder) / "__cluster_metadata-0").glob("*.log"))


# ---- the command


@pytest.fixture
def by_alice(cluster: EmbeddedCluster, tmp_path: Path) -> Callable[..., list[str]]:
    """Return the arguments of a command of alice, whose credentials are in a file."""
    file = tmp_path / "client.properties"
    options = password_options(cluster, "alice")
    file.write_text("".join(f"{name.replace('_', '.')}={text}\n" for name, text in options.items()))
    return lambda *arguments: ["token", *arguments, "--command-config", str(file)]


def test_the_command_creates_describes_renews_and_expires_a_token(
    cluster: EmbeddedCluster, by_alice: Callable[..., list[str]]
) -> None:
    options = ("--renewer", "User:bob", "--max-lifetime-ms", "90000")
    created = json.loads(tidelog_output(*by_alice("create", *options, "--json")))
    token_id, issued_ms = created["token_id"], created["issue_timestamp_ms"]
    assert (created["owner"], created["renewers"]) == ("User:alice", ["User:bob"])
    assert created["max_timestamp_ms"] - issued_ms == 90_000
    wait_until(lambda: nodes_with(cluster, token_id) == 3)
    shown = tidelog_output(*by_alice("describe", "--owner", "User:alice"))
    assert created["hmac"] not in shown + tidelog_output(*by_alice("describe", "--json"))
    assert created["hmac"] in tidelog_output(*by_alice("describe", "--show-hmac"))
    assert token_id not in tidelog_output(*by_alice("describe", "--owner", "User:x"))
    assert f"{token_id} expires 2" in tidelog_output(*by_alice("renew", token_id, "--period-ms", "80000"))

    def is_renewed() -> bool:
        tokens = json.loads(tidelog_output(*by_alice("describe", "--json")))
        times = {each["token_id"]: each["expiry_timestamp_ms"] for each in tokens}
        return bool(times[token_id] > created["expiry_timestamp_ms"])

    wait_until(is_renewed)
    tidelog_output(*by_alice("expire", token_id))
    wait_until(lambda: nodes_with(cluster, token_id) == 0)
    assert "DELEGATION_TOKEN_NOT_FOUND" in tidelog_failure(*by_alice("renew", token_id))


def test_the_command_prints_a_new_token_as_text(
    cluster: EmbeddedCluster, by_alice: Callable[..., list[str]]
) -> None:
    lines = dict(line.split(maxsplit=1) for line in tidelog_output(*by_alice("create")).splitlines())
    assert lines["owner"] == "User:alice"
    assert len(b64decode(lines["hmac"])) == 64


def test_the_command_names_a_wrong_principal(by_alice: Callable[..., list[str]]) -> None:
    assert "'alice' is not a principal" in tidelog_failure(*by_alice("create", "--owner", "alice"))
    assert "AUTHORIZATION_FAILED" in tidelog_failure(*by_alice("create", "--owner", "User:bob"))
