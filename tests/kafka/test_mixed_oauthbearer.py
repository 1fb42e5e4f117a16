"""Nodes of both kinds that authenticate to each other with tokens of an identity provider, over TLS."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from tests.kafka.kafka_node import Node
from tests.kafka.secured_cluster import KAFKAS, OURS, SecuredCluster
from tests.kafka.secured_work import (
    commit_and_abort,
    create_transactional_topic,
    replicate_in_both_directions,
    tier_with_metadata_at_both_kinds,
)
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.security.identity_provider import (
    AUDIENCE,
    ISSUER,
    KEYS_PATH,
    SECRET,
    TOKEN_PATH,
    IdentityProvider,
    claims,
    running_provider,
)
from tests.support.security.oauth_listener import oauth_listener
from tests.support.waiting import wait_until
from tidelog.security.oauthbearer.allowed_resources import ALLOWED_URLS_VARIABLE

TOKEN_LIFETIME_S = 30
"""Shorter than the tests take: every node obtains several tokens and authenticates with each of them."""


def listener(name: str, provider: IdentityProvider, node: Node) -> dict[str, str]:
    """Return the settings of one listener, for its clients and for connections to other nodes."""
    prefix = f"listener.name.{name}.oauthbearer.sasl."
    return {
        **oauth_listener(name, provider, str(node.number), SECRET),
        f"{prefix}oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}oauthbearer.expected.issuer": ISSUER,
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """Run an identity provider for the nodes."""

    def of_a_node() -> dict[str, Any]:
        now_s = int(time.time())
        return claims(sub="node", iat=now_s, exp=now_s + TOKEN_LIFETIME_S)

    with running_provider() as running:
        running.token_claims = of_a_node
        yield running


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Iterator[SecuredCluster]:
    """Run a cluster in which brokers and controllers authenticate with tokens only."""
    settings = {
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        # Kafka's tools connect to controllers with PLAIN.
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.internal.sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    urls = f"{provider.url + KEYS_PATH},{provider.url + TOKEN_PATH}"
    cluster = SecuredCluster(tmp_path_factory.mktemp("tokens"), settings)
    for node in cluster.cluster.nodes.values():
        node.settings |= {**listener("controller", provider, node), **listener("internal", provider, node)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ALLOWED_URLS_VARIABLE, urls)
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}")
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.cluster.end()


def test_records_are_replicated_in_both_directions(secured: SecuredCluster) -> None:
    replicate_in_both_directions(secured)


@pytest.mark.parametrize("engine", list(Engine))
def test_brokers_of_both_kinds_forward_requests_to_a_controller(
    secured: SecuredCluster, engine: Engine
) -> None:
    secured.elect_controller_of(engine)
    topic = f"forwarded-{engine.name.lower()}"
    secured.clients.create_topic(topic, [[OURS, KAFKAS]])
    for number, node in enumerate(secured.brokers, 1):
        value = str(number * 100_000)
        secured.clients.set_config(ConfigResource.Type.TOPIC, topic, "retention.ms", value, node)

        def is_known(value: str = value) -> bool:
            return all(
                secured.clients.config(ConfigResource.Type.TOPIC, topic, "retention.ms", broker) == value
                for broker in secured.brokers
            )

        wait_until(is_known, timeout_s=WITHIN_S)


@pytest.mark.parametrize("coordinator", [OURS, KAFKAS])
def test_transactions_are_committed_and_aborted(secured: SecuredCluster, coordinator: int) -> None:
    topic = f"in-transactions-{coordinator}"
    create_transactional_topic(secured, topic, coordinator)
    options = {
        **secured.librdkafka("admin"),
        "bootstrap.servers": secured.cluster.bootstrap_servers,
        "transactional.id": topic,
        "log_level": 0,
    }
    commit_and_abort(secured, Producer(options), topic)


def test_metadata_of_remote_segments_is_at_brokers_of_both_kinds(secured: SecuredCluster) -> None:
    tier_with_metadata_at_both_kinds(secured)


def test_sessions_of_nodes_continue_with_new_tokens(
    secured: SecuredCluster, provider: IdentityProvider
) -> None:
    former = len(provider.authorizations)
    wait_until(
        lambda: nodes_with_tokens(provider, former) == secured.cluster.nodes.keys(),
        timeout_s=3 * TOKEN_LIFETIME_S,
    )
    secured.clients.create_topic("later", [[OURS, KAFKAS], [KAFKAS, OURS]])
    secured.clients.produce("later", [str(number) for number in range(100)], 2)
    for node in secured.brokers:
        text = node.output.read_text()
        assert not re.search(r"(?i)session has expired|failed authentication", text)


def nodes_with_tokens(provider: IdentityProvider, first: int) -> set[int]:
    """Return the nodes that have obtained a token since the request with the number `first`."""
    texts = [
        base64.b64decode(each.removeprefix("Basic ")).decode() for each in provider.authorizations[first:]
    ]
    return {int(text.split(":")[0]) for text in texts if text}
