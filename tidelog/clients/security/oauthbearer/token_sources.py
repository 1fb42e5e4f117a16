"""Where the token of a client comes from (shell): an identity provider, a file, a function, or its options.

Source: HttpJwtRetriever, FileJwtRetriever, ClientJwtValidator and Retry of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from ssl import SSLContext
from typing import Final, Protocol

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.config_definition import ConfigError
from tidelog.clients.config.client_config import TokenProvider
from tidelog.clients.config.environment import Environment
from tidelog.clients.security.oauthbearer.login_settings import (
    ClientSecret,
    EndpointSource,
    FileSource,
    LoginSettings,
    UnsecuredSource,
)
from tidelog.clients.security.oauthbearer.text_files import read_text
from tidelog.clients.security.oauthbearer.token_requests import (
    TokenRetrievalError,
    read_token_response,
    token_request,
)
from tidelog.clients.transport.http_exchange import HttpError, exchange
from tidelog.security.jaas import JaasError
from tidelog.security.oauthbearer.messages import MESSAGE_BYTES_MAX
from tidelog.security.oauthbearer.token import (
    BearerToken,
    TokenError,
    decode_token,
    read_token,
    required_time_ms,
)
from tidelog.security.oauthbearer.unsecured import create_unsecured_token

_TOKEN_BYTES_MAX: Final = MESSAGE_BYTES_MAX - 1024


class TokenRetriever(Protocol):
    """Obtains a new token."""

    async def retrieve(self) -> BearerToken:
        """Return a new token. Errors: TokenRetrievalError."""
        ...


def token_retriever(settings: LoginSettings, environment: Environment) -> TokenRetriever:
    """Return what obtains the tokens of `settings`. I/O: reads trust stores. Errors: ConfigError."""
    source = settings.source
    if isinstance(source, EndpointSource):
        return EndpointRetriever(source, settings, environment)
    if isinstance(source, FileSource):
        return FileRetriever(source, settings)
    return UnsecuredRetriever(source, environment)


class DeferredRetriever:
    """Reads the trust stores of `settings` in a thread, before the first token is requested."""

    def __init__(self, settings: LoginSettings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._retriever: TokenRetriever | None = None

    async def retrieve(self) -> BearerToken:
        """Return a new token. Errors: TokenRetrievalError, also if a trust store cannot be used."""
        if self._retriever is None:
            try:
                self._retriever = await asyncio.to_thread(token_retriever, self._settings, self._environment)
            except ConfigError as error:
                raise TokenRetrievalError(str(error), is_retriable=True) from None
        return await self._retriever.retrieve()


class UnsecuredRetriever:
    """Creates unsecured tokens."""

    def __init__(self, source: UnsecuredSource, environment: Environment) -> None:
        self._source = source
        self._environment = environment

    async def retrieve(self) -> BearerToken:
        """Return a new token. Errors: TokenRetrievalError if an option is missing."""
        try:
            return create_unsecured_token(self._source.options, self._environment.wall_ms())
        except JaasError as error:
            raise TokenRetrievalError(str(error)) from None


class FileRetriever:
    """Reads the token from its file."""

    def __init__(self, source: FileSource, settings: LoginSettings) -> None:
        self._path = source.path
        self._settings = settings

    async def retrieve(self) -> BearerToken:
        """Return the token that is now in the file. Errors: TokenRetrievalError."""
        value = await asyncio.to_thread(read_text, self._path)
        return _checked(value, self._settings)


class EndpointRetriever:
    """Requests tokens from an identity provider."""

    def __init__(self, source: EndpointSource, settings: LoginSettings, environment: Environment) -> None:
        self._source = source
        self._settings = settings
        self._environment = environment
        self._context: SSLContext | None = None
        if source.url.startswith("https:"):
            # Imported here: without https, a client starts without the library for certificates.
            from tidelog.security.tls.contexts import client_context

            self._context = client_context(source.tls)

    async def retrieve(self) -> BearerToken:
        """Return a new token; repeat failed requests with growing delays. Errors: TokenRetrievalError."""
        source, monotonic_ms = self._source, self._environment.monotonic_ms
        deadline_ms = monotonic_ms() + source.retry_max_ms
        backoff, failures = ExponentialBackoff(source.retry_backoff_ms, source.retry_max_ms), 0
        while True:
            try:
                return _checked(await self._request(), self._settings)
            except TokenRetrievalError as error:
                delay_ms = min(backoff.base_delay_ms(failures), deadline_ms - monotonic_ms())
                if not error.is_retriable or delay_ms <= 0:
                    text = f"cannot obtain a token from {source.url}: {error}"
                    raise TokenRetrievalError(text, is_retriable=error.is_retriable) from None
            await asyncio.sleep(delay_ms / 1000)
            failures += 1

    async def _request(self) -> str:
        source, assertion = self._source, ""
        if not isinstance(source.grant, ClientSecret):
            # Imported here: without assertions, a client starts without the library for signatures.
            from tidelog.clients.security.oauthbearer.assertions import create_assertion

            now_ms, randomness = self._environment.wall_ms(), self._environment.rng
            assertion = await asyncio.to_thread(create_assertion, source.grant.assertion, now_ms, randomness)
        request = token_request(source.url, source.grant, source.scope, assertion)
        try:
            response = await exchange(self._environment, request, self._context, source.timeouts)
        except HttpError as error:
            raise TokenRetrievalError(str(error), is_retriable=True) from None
        return read_token_response(response)


class ProviderRetriever:
    """Calls a function of the application; one that is no coroutine function is called in a thread."""

    def __init__(self, provider: TokenProvider, environment: Environment) -> None:
        self._provider = provider
        self._environment = environment

    async def retrieve(self) -> BearerToken:
        """Return the token of the function. Errors: TokenRetrievalError, without the error's text."""
        try:
            found = await self._call()
        except Exception as error:
            # Not chained and not shown: the error of the application may contain a secret.
            text = f"oauth_token_provider has failed ({type(error).__name__})"
            raise TokenRetrievalError(text, is_retriable=True) from None
        value, expires_s = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not isinstance(value, str) or not isinstance(expires_s, int | float | None):
            allowed = "allowed are a token, or a token and the seconds since 1970 at which it expires"
            raise TokenRetrievalError(f"oauth_token_provider has returned another type; {allowed}")
        expires_ms = _expiration_ms(value) if expires_s is None else int(expires_s * 1000)
        return BearerToken(value=_bounded(value), principal="", expires_ms=expires_ms)

    async def _call(self) -> object:
        if inspect.iscoroutinefunction(self._provider):
            return await self._provider()
        found = await asyncio.to_thread(self._provider)
        return await found if isinstance(found, Awaitable) else found


def _expiration_ms(value: str) -> int:
    """Return when a token expires; 0 if it does not state it: the token is then used only once."""
    try:
        return required_time_ms(decode_token(value).claims, "exp")
    except TokenError:
        return 0


def _checked(value: str, settings: LoginSettings) -> BearerToken:
    """Return the token with its claims, which are not verified: that is the task of the broker."""
    try:
        claims = decode_token(_bounded(value)).claims
        return read_token(value, claims, settings.scope_claim, settings.principal_claim)
    except TokenError as error:
        raise TokenRetrievalError(f"the token cannot be used: {error}") from None


def _bounded(value: str) -> str:
    if len(value) > _TOKEN_BYTES_MAX or not value.isascii() or not value.isprintable():
        raise TokenRetrievalError(f"a token has at most {_TOKEN_BYTES_MAX} printable ASCII characters")
    return value
