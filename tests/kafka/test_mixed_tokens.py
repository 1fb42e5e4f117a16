"""Delegation tokens in a secured cluster of both kinds of nodes, under controllers of both kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from tests.kafka.kafka_node import Node
from tests.kafka.secured_cluster import SecuredCluster, password_of
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, DelegationToken
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

T = TypeVar("T")

# Enough requests that a client sends some of them to each broker.
TOKENS = 4


def options(secured: SecuredCluster, node: Node, mechanism: str, jaas: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": secured.address(node),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": jaas,
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": secured.authority_file("ca"),
    }


def of_user(secured: SecuredCluster, node: Node, user: str) -> dict[str, Any]:
    jaas = f'{PLAIN_LOGIN_MODULE} required username="{user}" password="{password_of(user)}";'
    return options(secured, node, "PLAIN", jaas)


def of_token(secured: SecuredCluster, node: Node, token: DelegationToken) -> dict[str, Any]:
    jaas = f'{SCRAM_LOGIN_MODULE} required username="{token.token_id}" password="{token.password}"'
    return options(secured, node, "SCRAM-SHA-256", f'{jaas} tokenauth="true";')


def run(client: dict[str, Any], work: Callable[[Admin], Awaitable[T]]) -> T:
    async def run_with_client() -> T:
        async with Admin(**client) as admin:
            return await work(admin)

    return asyncio.run(run_with_client())


def describe_tokens(secured: SecuredCluster, node: Node) -> list[DelegationToken]:
    return run(of_user(secured, node, "alice"), lambda admin: admin.describe_delegation_tokens())


def code(client: dict[str, Any], work: Callable[[Admin], Awaitable[object]]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        run(client, work)
    return raised.value.code


@pytest.mark.parametrize("engine", [Engine.KAFKA, Engine.TIDELOG])
def test_tokens_are_created_used_and_expired_at_all_brokers(secured: SecuredCluster, engine: Engine) -> None:
    secured.elect_controller_of(engine)
    alice = of_user(secured, secured.brokers[0], "alice")

    async def create(admin: Admin) -> list[DelegationToken]:
        return [await admin.create_delegation_token(renewers=["User:bob"]) for _ in range(TOKENS)]

    tokens = run(alice, create)
    for node in secured.brokers:
        # Each broker computes the HMACs itself.
        wait_until(partial(has_tokens, secured, node, tokens), timeout_s=WITHIN_S)
        assert not set(tokens) & set(
            run(of_user(secured, node, "bob"), lambda admin: admin.describe_delegation_tokens(["User:x"]))
        )
        for token in tokens:
            by_token = of_token(secured, node, token)
            run(by_token, lambda admin: admin.list_topics())
            not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert code(by_token, lambda admin: admin.create_delegation_token()) is not_allowed
        denied = code(
            of_user(secured, node, "bob"), lambda admin: admin.create_delegation_token(owner="User:alice")
        )
        assert denied is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

    async def renew_and_expire(admin: Admin) -> None:
        for token in tokens:
            assert await admin.renew_delegation_token(token.hmac) > token.expiry_timestamp_ms
            await admin.expire_delegation_token(token.hmac)

    run(of_user(secured, secured.brokers[1], "bob"), renew_and_expire)
    for node in secured.brokers:
        wait_until(partial(has_none, secured, node, tokens), timeout_s=WITHIN_S)
        failed = code(of_token(secured, node, tokens[0]), lambda admin: admin.list_topics())
        assert failed is ErrorCode.SASL_AUTHENTICATION_FAILED


def has_tokens(secured: SecuredCluster, node: Node, tokens: list[DelegationToken]) -> bool:
    return set(tokens) <= set(describe_tokens(secured, node))


def has_none(secured: SecuredCluster, node: Node, tokens: list[DelegationToken]) -> bool:
    ids = {token.token_id for token in describe_tokens(secured, node)}
    return ids.isdisjoint(token.token_id for token in tokens)
