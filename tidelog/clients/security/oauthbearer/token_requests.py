"""Requests for tokens to an identity provider, and its responses.

Source: RFC 6749, RFC 7521, RFC 7523; ClientSecretRequestFormatter, ClientAssertionRequestFormatter,
JwtBearerRequestFormatter, HttpJwtRetriever and JwtResponseParser of Apache Kafka 4.3.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from tidelog.clients.security.oauthbearer.login_settings import ClientAssertion, ClientSecret, JwtBearer
from tidelog.clients.transport.http_exchange import HttpRequest, HttpResponse

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SUCCESS: Final = frozenset({200, 201})
_FINAL_STATUSES: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)
"""After these a request is not repeated."""
_ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class TokenRetrievalError(Exception):
    """No token could be obtained; the text has no secret. `is_retriable`: another attempt may succeed."""

    def __init__(self, text: str, *, is_retriable: bool = False) -> None:
        super().__init__(text)
        self.is_retriable = is_retriable


def token_request(
    url: str, grant: ClientSecret | ClientAssertion | JwtBearer, scope: str | None, assertion: str
) -> HttpRequest:
    """Return the request for a token; `assertion` is not used with a client secret."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cache-Control": "no-cache"}
    if isinstance(grant, JwtBearer):
        fields = {"grant_type": _JWT_BEARER, "assertion": assertion}
    elif isinstance(grant, ClientAssertion):
        fields = {
            "grant_type": "client_credentials",
            "client_assertion_type": _CLIENT_ASSERTION,
            "client_assertion": assertion,
        }
        if grant.client_id is not None:
            fields["client_id"] = grant.client_id
    else:
        fields = {"grant_type": "client_credentials"}
        headers["Authorization"] = _basic(grant)
    if scope is not None:
        fields["scope"] = scope
    return HttpRequest(url=url, method="POST", headers=headers, body=urlencode(fields).encode())


def read_token_response(response: HttpResponse) -> str:
    """Return the token in a response. Raise TokenRetrievalError."""
    content = _content(response.body)
    if response.status not in _SUCCESS:
        code = content.get("error", content.get("errorCode"))
        is_code = isinstance(code, str) and _ERROR_CODE.fullmatch(code) is not None
        reason = f"HTTP status {response.status}" + (f", {code}" if is_code else "")
        raise TokenRetrievalError(reason, is_retriable=response.status not in _FINAL_STATUSES)
    for name in ("access_token", "id_token"):
        token = content.get(name)
        if isinstance(token, str) and token.strip():
            return token.strip()
    raise TokenRetrievalError("the response has no access_token")


def _content(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _basic(grant: ClientSecret) -> str:
    client_id, secret = grant.client_id, grant.client_secret
    if grant.is_url_encoded:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    return f"Basic {b64encode(f'{client_id}:{secret}'.encode()).decode()}"
