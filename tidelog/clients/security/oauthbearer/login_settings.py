"""The settings of a login with OAUTHBEARER: Kafka's keys and the options of the JAAS config.

    sasl.login.callback.handler.class     tokens of an identity provider, or unsecured tokens (the default)
    sasl.oauthbearer.jwt.retriever.class  client credentials, jwt-bearer, or a file; by default by the URL
    sasl.oauthbearer.token.endpoint.url   where tokens are requested, or their file
    sasl.oauthbearer.client.credentials.* or the options clientId and clientSecret
    sasl.oauthbearer.scope                or the option scope
    sasl.oauthbearer.assertion.*          assertions instead of a client secret, and for jwt-bearer
    sasl.login.*                          time limits, retries, the time of the refresh
    options extension_<name>              SASL extensions
    options ssl.*                         TLS of the endpoint

Errors: ConfigError; secrets are never shown.
Source: KIP-768, KIP-1139, KIP-1258; OAuthBearerLoginCallbackHandler, DefaultJwtRetriever and
ClientCredentialsRequestFormatterFactory of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from tidelog.base.config_definition import HIDDEN_VALUE, ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.clients.transport.http_exchange import HttpTimeouts
from tidelog.security.oauthbearer.allowed_resources import AllowedResources, Endpoint
from tidelog.security.oauthbearer.messages import invalid_extension
from tidelog.security.oauthbearer.refresh_time import RefreshSettings
from tidelog.security.oauthbearer.unsecured import EXTENSION_PREFIX as UNSECURED_EXTENSION_PREFIX
from tidelog.security.tls.settings import TLS_KEYS, TlsSettings, parse_tls_settings

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
LOGIN_HANDLER: Final = f"{_PACKAGE}.OAuthBearerLoginCallbackHandler"
UNSECURED_LOGIN_HANDLER: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_DEFAULT, _CLIENT_CREDENTIALS, _FILE, _JWT_BEARER = (
    f"{_PACKAGE}.{name}"
    for name in (
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
        "JwtBearerJwtRetriever",
    )
)
_RETRIEVERS: Final = (_DEFAULT, _CLIENT_CREDENTIALS, _FILE, _JWT_BEARER)

_HANDLER: Final = "sasl.login.callback.handler.class"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_ASSERTION: Final = "sasl.oauthbearer.assertion"
_JAAS: Final = "sasl.jaas.config"
_EXTENSION_PREFIX: Final = "extension_"
_DEFAULT_TIMEOUT_MS: Final = 10_000
"""A difference from Kafka, which has no limit by default."""

LOGIN_KEYS: Final = frozenset(
    {
        _HANDLER,
        _RETRIEVER,
        _URL,
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        f"{_ASSERTION}.algorithm",
        f"{_ASSERTION}.claim.aud",
        f"{_ASSERTION}.claim.exp.seconds",
        f"{_ASSERTION}.claim.iss",
        f"{_ASSERTION}.claim.jti.include",
        f"{_ASSERTION}.claim.nbf.seconds",
        f"{_ASSERTION}.claim.sub",
        f"{_ASSERTION}.file",
        f"{_ASSERTION}.private.key.file",
        f"{_ASSERTION}.private.key.passphrase",
        f"{_ASSERTION}.template.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    }
)
"""The keys that `login_settings` reads."""

ValueOf: TypeAlias = Callable[[str], Any]
"""Returns the parsed value of a key of `LOGIN_KEYS`; None if it is not set and has no default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionFile:
    """A file with a signed assertion, which another program keeps up to date."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionSettings:
    """How assertions are created; `claims` are `aud`, `iss` and `sub` if they are set."""

    algorithm: str
    private_key_file: str
    file_password: str | None = field(repr=False)
    template_file: str | None
    claims: Mapping[str, str]
    expires_s: int
    begins_before_s: int
    has_id: bool


AssertionSource: TypeAlias = AssertionFile | AssertionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecret:
    """The client authenticates to the identity provider with a secret."""

    client_id: str
    client_secret: str = field(repr=False)
    is_url_encoded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssertion:
    """The client authenticates to the identity provider with an assertion."""

    client_id: str | None
    assertion: AssertionSource


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtBearer:
    """The assertion is exchanged for a token."""

    assertion: AssertionSource


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSource:
    """Tokens are requested from an identity provider; a failed request is retried for `retry_max_ms`."""

    url: str
    grant: ClientSecret | ClientAssertion | JwtBearer
    scope: str | None
    tls: TlsSettings
    timeouts: HttpTimeouts
    retry_backoff_ms: int
    retry_max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """The token is in a file, which another program keeps up to date."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredSource:
    """Tokens without a signature, from the options of the login module."""

    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Where the tokens of a client come from, and what it sends with them."""

    source: EndpointSource | FileSource | UnsecuredSource
    extensions: Mapping[str, str] = field(repr=False)
    scope_claim: str
    principal_claim: str
    refresh: RefreshSettings


def login_settings(value_of: ValueOf, options: Mapping[str, str], allowed: AllowedResources) -> LoginSettings:
    """Return the settings of a login; `options` are those of the login module. Raise ConfigError."""
    handler = value_of(_HANDLER)
    if handler not in (None, LOGIN_HANDLER, UNSECURED_LOGIN_HANDLER):
        raise ConfigError(_HANDLER, handler, f"allowed are {LOGIN_HANDLER} and {UNSECURED_LOGIN_HANDLER}")
    is_unsecured = handler != LOGIN_HANDLER
    prefix = UNSECURED_EXTENSION_PREFIX if is_unsecured else _EXTENSION_PREFIX
    source = (
        _unsecured_source(value_of, options) if is_unsecured else _signed_source(value_of, options, allowed)
    )
    return LoginSettings(
        source=source,
        extensions=_extensions(options, prefix),
        scope_claim=value_of("sasl.oauthbearer.scope.claim.name"),
        principal_claim=value_of("sasl.oauthbearer.sub.claim.name"),
        refresh=refresh_settings(value_of),
    )


def refresh_settings(value_of: ValueOf) -> RefreshSettings:
    """Return when tokens are replaced. Raise ConfigError for values that are out of Kafka's bounds."""
    found = {}
    for name, least, most in (
        ("window.factor", 0.5, 1.0),
        ("window.jitter", 0.0, 0.25),
        ("min.period.seconds", 0, 900),
        ("buffer.seconds", 0, 3600),
    ):
        key = f"sasl.login.refresh.{name}"
        found[name] = value_of(key)
        if not isinstance(found[name], int | float) or not least <= found[name] <= most:
            raise ConfigError(key, found[name], f"{least} to {most}")
    return RefreshSettings(
        window_factor=found["window.factor"],
        window_jitter=found["window.jitter"],
        min_period_ms=found["min.period.seconds"] * 1000,
        buffer_ms=found["buffer.seconds"] * 1000,
    )


def _unsecured_source(value_of: ValueOf, options: Mapping[str, str]) -> UnsecuredSource:
    if value_of(_URL) is not None and not any(name.startswith("unsecuredLogin") for name in options):
        raise ConfigError(_HANDLER, None, f"with {_URL}, it must be {LOGIN_HANDLER}")
    return UnsecuredSource(options=options)


def _signed_source(
    value_of: ValueOf, options: Mapping[str, str], allowed: AllowedResources
) -> EndpointSource | FileSource:
    retriever = value_of(_RETRIEVER)
    if retriever not in _RETRIEVERS:
        raise ConfigError(_RETRIEVER, retriever, f"allowed are {', '.join(_RETRIEVERS)}")
    endpoint = allowed.endpoint(_URL, value_of(_URL))
    if retriever == _FILE or (retriever == _DEFAULT and endpoint.path is not None):
        if endpoint.path is None:
            raise ConfigError(_URL, endpoint.url, f"{retriever} needs a URL with file")
        return FileSource(path=endpoint.path)
    if endpoint.path is not None:
        raise ConfigError(_URL, endpoint.url, f"{retriever} needs a URL with https or http")
    if retriever == _JWT_BEARER:
        grant: ClientSecret | ClientAssertion | JwtBearer = JwtBearer(
            assertion=_assertion_source(value_of, allowed)
        )
        scope = _text(value_of, "sasl.oauthbearer.scope")
    else:
        grant = _client_credentials(value_of, options, allowed)
        scope = _text(value_of, "sasl.oauthbearer.scope", options, "scope")
    return _endpoint_source(value_of, options, endpoint, grant, scope)


def _endpoint_source(
    value_of: ValueOf,
    options: Mapping[str, str],
    endpoint: Endpoint,
    grant: ClientSecret | ClientAssertion | JwtBearer,
    scope: str | None,
) -> EndpointSource:
    connect_ms = value_of("sasl.login.connect.timeout.ms")
    read_ms = value_of("sasl.login.read.timeout.ms")
    return EndpointSource(
        url=endpoint.url,
        grant=grant,
        scope=scope,
        tls=parse_tls_settings({key: options.get(key) for key in TLS_KEYS}),
        timeouts=HttpTimeouts(connect_ms or _DEFAULT_TIMEOUT_MS, read_ms or _DEFAULT_TIMEOUT_MS),
        retry_backoff_ms=value_of("sasl.login.retry.backoff.ms"),
        retry_max_ms=value_of("sasl.login.retry.backoff.max.ms"),
    )


def _client_credentials(
    value_of: ValueOf, options: Mapping[str, str], allowed: AllowedResources
) -> ClientSecret | ClientAssertion:
    id_key = "sasl.oauthbearer.client.credentials.client.id"
    secret_key = "sasl.oauthbearer.client.credentials.client.secret"
    client_id = _text(value_of, id_key, options, "clientId")
    if _text(value_of, f"{_ASSERTION}.file") or _text(value_of, f"{_ASSERTION}.claim.iss"):
        return ClientAssertion(client_id=client_id, assertion=_assertion_source(value_of, allowed))
    secret = _text(value_of, secret_key, options, "clientSecret")
    if client_id is None:
        raise ConfigError(id_key, None, "the client needs it, or the option clientId of the JAAS config")
    if secret is None:
        raise ConfigError(
            secret_key, None, "the client needs it, or the option clientSecret of the JAAS config"
        )
    is_encoded = bool(value_of("sasl.oauthbearer.header.urlencode"))
    return ClientSecret(client_id=client_id, client_secret=secret, is_url_encoded=is_encoded)


def _assertion_source(value_of: ValueOf, allowed: AllowedResources) -> AssertionSource:
    def file(part: str) -> str | None:
        path = _text(value_of, f"{_ASSERTION}.{part}")
        return None if path is None else allowed.file(f"{_ASSERTION}.{part}", path)

    signed = file("file")
    if signed is not None:
        return AssertionFile(path=signed)
    private_key = file("private.key.file")
    if private_key is None:
        raise ConfigError(f"{_ASSERTION}.private.key.file", None, f"needed without {_ASSERTION}.file")
    claims = {name: _text(value_of, f"{_ASSERTION}.claim.{name}") for name in ("aud", "iss", "sub")}
    return AssertionSettings(
        algorithm=value_of(f"{_ASSERTION}.algorithm").upper(),
        private_key_file=private_key,
        file_password=_text(value_of, f"{_ASSERTION}.private.key.passphrase"),
        template_file=file("template.file"),
        claims={name: text for name, text in claims.items() if text is not None},
        expires_s=value_of(f"{_ASSERTION}.claim.exp.seconds"),
        begins_before_s=value_of(f"{_ASSERTION}.claim.nbf.seconds"),
        has_id=value_of(f"{_ASSERTION}.claim.jti.include"),
    )


def _text(
    value_of: ValueOf, key: str, options: Mapping[str, str] | None = None, option: str = ""
) -> str | None:
    """Return the text of a key, or else that of an option; None if neither has one."""
    found = value_of(key) or (options or {}).get(option) or ""
    return found.strip() or None


def _extensions(options: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    found = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    problem = invalid_extension(found)
    if problem is not None:
        raise ConfigError(_JAAS, HIDDEN_VALUE, problem)
    return found
