"""Requests for tokens and their responses."""

from __future__ import annotations

import json

import pytest

from tidelog.clients.security.oauthbearer.login_settings import (
    AssertionFile,
    ClientAssertion,
    ClientSecret,
    JwtBearer,
)
from tidelog.clients.security.oauthbearer.token_requests import (
    TokenRetrievalError,
    read_token_response,
    token_request,
)
from tidelog.clients.transport.http_exchange import HttpResponse

URL = "https://id.example/token"
ASSERTION = AssertionFile(path="/x")


def test_client_credentials_are_those_of_kafka() -> None:
    grant = ClientSecret(client_id="a b", client_secret="c:d", is_url_encoded=False)
    request = token_request(URL, grant, "read write", "")
    assert (request.url, request.method) == (URL, "POST")
    assert request.headers["Authorization"] == "Basic YSBiOmM6ZA=="
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.body == b"grant_type=client_credentials&scope=read+write"


def test_client_credentials_can_be_url_encoded() -> None:
    grant = ClientSecret(client_id="a b", client_secret="c:d", is_url_encoded=True)
    assert token_request(URL, grant, None, "").headers["Authorization"] == "Basic YStiOmMlM0Fk"


def test_an_assertion_is_sent_instead_of_a_secret() -> None:
    request = token_request(URL, ClientAssertion(client_id="me", assertion=ASSERTION), None, "x.y.z")
    assert "Authorization" not in request.headers
    assert request.body == (
        b"grant_type=client_credentials&client_assertion_type="
        b"urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
        b"&client_assertion=x.y.z&client_id=me"
    )


def test_a_jwt_bearer_request_has_the_assertion_and_the_scope() -> None:
    request = token_request(URL, JwtBearer(assertion=ASSERTION), "all", "x.y.z")
    assert request.body == (
        b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=x.y.z&scope=all"
    )


@pytest.mark.parametrize("name", ["access_token", "id_token"])
def test_the_token_of_a_response_is_read_without_blanks(name: str) -> None:
    assert read_token_response(HttpResponse(200, json.dumps({name: " a.b.c "}).encode())) == "a.b.c"


@pytest.mark.parametrize(
    ("status", "body", "reason", "is_retriable"),
    [
        (401, b'{"error": "invalid_client", "error_description": "canary"}', "401, invalid_client", False),
        (400, b'{"errorCode": "E0001"}', "400, E0001", False),
        (400, b'{"error": "canary <b>"}', "HTTP status 400", False),
        (500, b"canary", "HTTP status 500", True),
        (429, b"[]", "HTTP status 429", True),
        (200, b"canary", "no access_token", False),
        (200, b'{"access_token": ""}', "no access_token", False),
        (200, b'{"access_token": 5, "canary": 1}', "no access_token", False),
        (200, b"[" * 100_000, "no access_token", False),
    ],
)
def test_other_responses_are_errors_without_secrets(
    status: int, body: bytes, reason: str, is_retriable: bool
) -> None:
    with pytest.raises(TokenRetrievalError, match=reason) as raised:
        read_token_response(HttpResponse(status, body))
    assert raised.value.is_retriable is is_retriable
    assert "canary" not in str(raised.value) and raised.value.__cause__ is None
