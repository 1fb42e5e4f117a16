"""An OAuth identity provider of tests: signing keys, tokens, and an HTTP server with keys and tokens."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry, serialize_compact

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.security.oauthbearer.key_set import ALGORITHMS

ISSUER, AUDIENCE = "https://issuer.example", "tidelog"
SECRET = "canary-client-secret"
KEYS_PATH, TOKEN_PATH = "/keys", "/token"
_GENERATING = threading.Lock()


@cache
def _generate_key(number: int, algorithm: str) -> RSAKey | ECKey:
    kind = ALGORITHMS[algorithm]
    if kind.curve is None:
        return RSAKey.generate_key(2048)
    return ECKey.generate_key(kind.curve)


@dataclass(frozen=True)
class SigningKey:
    """A private key with its id."""

    key_id: str | None = "key-1"
    algorithm: str = "RS256"
    number: int = 1
    """Keys with different numbers are different."""

    @property
    def private(self) -> RSAKey | ECKey:
        """Return the private key."""
        # Threads that generate it at the same time would get different keys.
        with _GENERATING:
            return _generate_key(self.number, self.algorithm)

    def public(self) -> dict[str, Any]:
        """Return the entry of the key set."""
        named = {} if self.key_id is None else {"kid": self.key_id}
        return {**self.private.as_dict(private=False), **named, "use": "sig", "alg": self.algorithm}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """Return a token."""
        named = {} if self.key_id is None else {"kid": self.key_id}
        registry = JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        protected = {"alg": self.algorithm, **named, **header}
        return serialize_compact(protected, json.dumps(claims), self.private, registry=registry)


def key_set(*keys: SigningKey) -> bytes:
    """Return the JSON Web Key Set with the public keys."""
    return json.dumps({"keys": [key.public() for key in keys]}).encode()


def claims(now_ms: int | None = None, **changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token of alice for an hour; a change to None removes a claim."""
    now_s = (SYSTEM_CLOCK.wall_ms() if now_ms is None else now_ms) // 1000
    usual = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 3600}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def encode_part(part: object) -> str:
    """Return a part of a token in base64url: bytes, or another object as JSON."""
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def unsecured_token(payload: dict[str, Any]) -> str:
    """Return an unsecured token."""
    return f"{encode_part({'alg': 'none'})}.{encode_part(payload)}."


@dataclass
class IdentityProvider:
    """The state of the server, which tests change; `requests` are the paths and bodies of all requests."""

    url: str = ""
    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey()])
    token_claims: Callable[[], dict[str, Any]] = claims
    requests: list[tuple[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    response_to: Callable[[str], tuple[int, bytes]] | None = None
    """Replaces the response of a path: status and body."""

    def respond(self, path: str) -> tuple[int, bytes]:
        """Return status and body."""
        if self.response_to is not None:
            return self.response_to(path)
        if path == KEYS_PATH:
            return 200, key_set(*self.keys)
        token = self.keys[-1].sign(self.token_claims())
        return 200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).encode()

    def count(self, path: str) -> int:
        """Return the number of requests of a path."""
        return sum(1 for requested_path, _ in self.requests if requested_path == path)


@contextmanager
def running_provider(context: ssl.SSLContext | None = None) -> Iterator[IdentityProvider]:
    """Yield a provider on a free port of the loopback address; with `context`, it uses TLS."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond("")

        def do_POST(self) -> None:
            self._respond(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _respond(self, body: str) -> None:
            provider.requests.append((self.path, body))
            provider.authorizations.append(self.headers.get("Authorization", ""))
            status, text = provider.respond(self.path)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", text.decode())
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if context is None else "https"
    provider.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
