"""The clients and the command of Tidelog at a secured broker of Apache Kafka: each mechanism over TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.own_clients import RECORDS, produce_for, transactional_round_trip
from tests.kafka.kafka_node import MixedCluster
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.security.identity_provider import (
    AUDIENCE,
    SECRET,
    TOKEN_PATH,
    IdentityProvider,
    claims,
    key_set,
    running_provider,
)
from tests.support.waiting import wait_until
from tidelog.broker.config.oauthbearer_config import SIGNED_VALIDATOR
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.users import ScramUpsertion
from tidelog.clients.producer.producer import Producer
from tidelog.clients.security.oauthbearer.login_settings import LOGIN_HANDLER
from tidelog.local_cluster.ports import free_ports
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.certificate_authority import Authority
from tidelog.security.jaas import OAUTHBEARER_LOGIN_MODULE, PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_URLS_VARIABLE

PASSWORD = "alice-secret"
PLAIN, SHA_256, SHA_512, TOKENS = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
DELEGATION = "delegation token"
WAYS = (PLAIN, SHA_256, SHA_512, TOKENS, DELEGATION)
SESSION_MS = 4_000

Options = dict[str, Any]


def settings(folder: Path, port: int) -> dict[str, str]:
    """Return the settings of a broker whose listener for clients has all mechanisms."""
    authority, clients = Authority.create(), "listener.name.clients."
    controller, internal = free_ports(2)
    (folder / "keys.json").write_bytes(key_set(*IdentityProvider().keys))
    scram = f"{SCRAM_LOGIN_MODULE} required;"
    return {
        "listeners": (
            f"CLIENTS://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").write_pem(folder / "broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(folder / "ca.pem")),
        f"{clients}sasl.enabled.mechanisms": ",".join((PLAIN, SHA_256, SHA_512, TOKENS)),
        f"{clients}plain.sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required user_alice="{PASSWORD}";',
        f"{clients}scram-sha-256.sasl.jaas.config": scram,
        f"{clients}scram-sha-512.sasl.jaas.config": scram,
        f"{clients}oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_LOGIN_MODULE} required;",
        f"{clients}oauthbearer.sasl.server.callback.handler.class": SIGNED_VALIDATOR,
        f"{clients}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        f"{clients}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        "connections.max.reauth.ms": str(SESSION_MS),
        "delegation.token.secret.key": "secret of tokens",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "default.replication.factor": "1",
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """Run an identity provider whose tokens the broker verifies with the keys of a file."""
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Iterator[Options]:
    """Run a broker of Apache Kafka; yield the options of its clients without credentials."""
    folder = tmp_path_factory.mktemp("secured-kafka")
    cluster = MixedCluster(folder)
    node = cluster.add(1, Engine.KAFKA, "broker,controller")
    node.settings = settings(folder, node.port)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ALLOWED_URLS_VARIABLE, provider.url + TOKEN_PATH)
        patch.setenv(
            "JAVA_TOOL_OPTIONS",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(folder / 'keys.json').as_uri()}",
        )
        try:
            credentials = [
                option
                for mechanism in (SHA_256, SHA_512)
                for option in ("--add-scram", f"{mechanism}=[name=alice,password={PASSWORD}]")
            ]
            cluster.format(node, *credentials)
            cluster.start(node)
            options = {
                "bootstrap_servers": node.address,
                "security_protocol": "SASL_SSL",
                "ssl_truststore_type": "PEM",
                "ssl_truststore_location": str(folder / "ca.pem"),
            }
            wait_until(lambda: is_ready({**options, **by_password(PLAIN)}), timeout_s=WITHIN_S)
            yield options
        finally:
            cluster.end()


def is_ready(options: Options) -> bool:
    """Return whether the broker accepts alice."""
    try:
        asyncio.run(topics(options))
    except KafkaError:
        return False
    return True


async def topics(options: Options) -> set[str]:
    """Return the names of all topics."""
    async with Admin(**options) as admin:
        return set(await admin.list_topics())


def by_password(mechanism: str, user: str = "alice", password: str = PASSWORD, more: str = "") -> Options:
    """Return the credentials of a user, or of a token."""
    module = PLAIN_LOGIN_MODULE if mechanism == PLAIN else SCRAM_LOGIN_MODULE
    jaas = f'{module} required username="{user}" password="{password}"{more};'
    return {"sasl_mechanism": mechanism, "sasl_jaas_config": jaas}


def by_provider(provider: IdentityProvider) -> Options:
    """Return the credentials with which a client obtains tokens."""
    return {
        "sasl_mechanism": TOKENS,
        "sasl_login_callback_handler_class": LOGIN_HANDLER,
        "sasl_oauthbearer_token_endpoint_url": provider.url + TOKEN_PATH,
        "sasl_oauthbearer_client_credentials_client_id": "client",
        "sasl_oauthbearer_client_credentials_client_secret": SECRET,
    }


def credentials(client: Options, provider: IdentityProvider, way: str) -> Options:
    """Return valid credentials of alice."""
    if way == TOKENS:
        return by_provider(provider)
    if way != DELEGATION:
        return by_password(way)

    async def create() -> Options:
        async with Admin(**client, **by_password(PLAIN)) as admin:
            token = await admin.create_delegation_token()
        return by_password(SHA_256, token.token_id, token.password, ' tokenauth="true"')

    return asyncio.run(create())


def properties(path: Path, options: Mapping[str, Any]) -> str:
    """Write the options of a client as a file for the command; return its path."""
    lines = [f"{key.replace('_', '.')}={value}\n" for key, value in options.items()]
    path.write_text("".join(lines))
    return str(path)


@pytest.mark.parametrize("way", WAYS)
def test_producer_consumer_and_admin_authenticate(
    client: Options, provider: IdentityProvider, way: str
) -> None:
    options = {**client, **credentials(client, provider, way)}
    # A new token is valid as soon as the broker has read its record.
    wait_until(lambda: is_ready(options), timeout_s=WITHIN_S)
    values = asyncio.run(transactional_round_trip(options, replication_factor=1))
    assert values == list(range(RECORDS))


@pytest.mark.parametrize("way", WAYS)
def test_the_command_authenticates(
    client: Options, provider: IdentityProvider, way: str, tmp_path: Path
) -> None:
    options = {**client, **credentials(client, provider, way)}
    wait_until(lambda: is_ready(options), timeout_s=WITHIN_S)
    config = ("--command-config", properties(tmp_path / "client.properties", options))
    topic = f"command-{WAYS.index(way)}"
    tidelog_output("topic", "create", topic, *config)
    tidelog_output("produce", topic, *config, stdin="one\ntwo\n")
    assert tidelog_output("consume", topic, *config, "--offset", "beginning", "--exit").split() == [
        "one",
        "two",
    ]


WRONG: dict[str, Options] = {
    "PLAIN, wrong password": by_password(PLAIN, password="wrong"),
    "PLAIN, unknown user": by_password(PLAIN, "eve"),
    "SCRAM-SHA-256, wrong password": by_password(SHA_256, password="wrong"),
    "SCRAM-SHA-256, unknown user": by_password(SHA_256, "eve"),
    "SCRAM-SHA-512, wrong password": by_password(SHA_512, password="wrong"),
    "SCRAM-SHA-512, unknown user": by_password(SHA_512, "eve"),
    "delegation token, unknown": by_password(SHA_256, "unknown", PASSWORD, ' tokenauth="true"'),
    "delegation token, password of the user": by_password(SHA_256, more=' tokenauth="true"'),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_credentials_end_an_operation_at_once(client: Options, case: str, tmp_path: Path) -> None:
    options = {**client, **WRONG[case]}
    assert_refused(options)
    config = properties(tmp_path / "client.properties", options)
    assert "authentication failed" in tidelog_failure("topic", "list", "--command-config", config).lower()


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1, "iat": 0},
        {"aud": "other"},
        {"sub": None},
    ],
    ids=["expired", "other audience", "no subject"],
)
def test_a_rejected_token_ends_an_operation_at_once(
    client: Options, provider: IdentityProvider, changes: Options
) -> None:
    token = provider.keys[-1].sign(claims(**changes))
    assert_refused(
        {**client, "sasl_mechanism": TOKENS, "oauth_token_provider": lambda: (token, time.time() + 60)}
    )


def test_a_delegation_token_with_a_wrong_hmac_is_refused(client: Options, provider: IdentityProvider) -> None:
    options = credentials(client, provider, DELEGATION)
    jaas = options["sasl_jaas_config"].replace('password="', 'password="x')
    wait_until(lambda: is_ready({**client, **options}), timeout_s=WITHIN_S)
    assert_refused({**client, **options, "sasl_jaas_config": jaas})


def assert_refused(options: Options) -> None:
    """Check that the admin client and the producer report the failed authentication."""

    async def produce() -> None:
        async with Producer(**options) as producer:
            await producer.send_and_wait("refused", b"value")

    for operation in (topics(options), produce()):
        with pytest.raises(KafkaError) as raised:
            asyncio.run(operation)
        assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("way", WAYS)
def test_clients_authenticate_again_before_their_session_ends(
    client: Options, provider: IdentityProvider, way: str
) -> None:
    options = {**client, **credentials(client, provider, way)}
    wait_until(lambda: is_ready(options), timeout_s=WITHIN_S)
    asyncio.run(produce_for(options, 2.5 * SESSION_MS / 1000, replication_factor=1))


def test_a_changed_password_is_needed_for_new_connections_and_new_sessions(client: Options) -> None:
    former, later = ({**client, **by_password(SHA_512, "carol", each)} for each in ("old", "new"))

    def set_password(password: str) -> None:
        async def alter() -> None:
            change = ScramUpsertion(user="carol", password=password)
            async with Admin(**client, **by_password(PLAIN)) as admin:
                assert await admin.alter_user_scram_credentials([change]) == {"carol": None}

        asyncio.run(alter())

    set_password("old")
    wait_until(lambda: is_ready(former), timeout_s=WITHIN_S)
    with asyncio.Runner() as runner:
        connected = Admin(**former)

        def is_served() -> bool:
            try:
                runner.run(connected.list_topics())
            except KafkaError as error:
                assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
                return False
            return True

        runner.run(connected.start())
        assert is_served()
        set_password("new")
        assert is_served()
        wait_until(lambda: is_ready(later), timeout_s=WITHIN_S)
        assert_refused(former)
        # The client authenticates again at the end of its session.
        wait_until(lambda: not is_served(), timeout_s=WITHIN_S)
        runner.run(connected.close())
