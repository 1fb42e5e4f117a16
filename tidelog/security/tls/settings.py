"""The TLS settings of a listener or a client: Kafka's `ssl.*` keys.

Errors: ConfigError with the key, the value and what is allowed; secrets are never shown.
Source: SslConfigs, BrokerSecurityConfigs and DefaultSslEngineFactory of Apache Kafka 4.3; KIP-651.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from tidelog.base.config_definition import HIDDEN_VALUE, ConfigError, split_list
from tidelog.base.dataclass import dataclass

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_PROTOCOLS: Final = ("TLS", *TLS_VERSIONS)
_STORE_TYPES: Final = ("PEM", "PKCS12")
_CONVERSION: Final = (
    "allowed is PEM or PKCS12; convert a JKS file with keytool -importkeystore -srckeystore store.jks "
    "-destkeystore store.p12 -deststoretype PKCS12"
)

TLS_KEYS: Final = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""The keys that `parse_tls_settings` reads."""

UNSUPPORTED_KEYS: Final = frozenset(
    {
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Keys that select Java classes or algorithms of Java; there is nothing that they could select here."""

_DEFAULT_ALGORITHMS: Final = {
    "ssl.keymanager.algorithm": ("SunX509", "PKIX", "NewSunX509"),
    "ssl.trustmanager.algorithm": ("PKIX", "SunX509"),
}


class ClientAuth(Enum):
    """Whether a server requests a certificate from clients: ssl.client.auth."""

    REQUIRED = "required"
    REQUESTED = "requested"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The names of keys as the operator has written them, for error texts: with a prefix, or without."""

    prefix: str
    prefixed_keys: frozenset[str]

    def __call__(self, key: str) -> str:
        """Return the name of `key`."""
        return self.prefix + key if key in self.prefixed_keys else key


PLAIN_NAMES: Final = KeyNames("", frozenset())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoreSettings:
    """A key store or a trust store: a file at `location`, or PEM text in the configuration.

    `kind` is keystore or truststore, as in the keys. `pem` is the text of the certificates; `key_pem` and
    `key_password` belong to key stores only.
    """

    kind: str
    name: KeyNames
    is_pem: bool
    location: str | None
    password: str | None
    pem: str | None
    key_pem: str | None
    key_password: str | None

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"StoreSettings({self.kind}, {self.location or 'in the configuration'})"

    def error(self, part: str, value: object, allowed: str) -> ConfigError:
        """Return the error for the key `ssl.<kind>.<part>`."""
        return ConfigError(self.name(f"ssl.{self.kind}.{part}"), value, allowed)

    def content_error(self, problem: str) -> ConfigError:
        """Return the error for contents that cannot be used, with the path if there is one."""
        if self.location is not None:
            return self.error("location", self.location, problem)
        part = "certificates" if self.kind == "truststore" else "certificate.chain"
        return self.error(part, HIDDEN_VALUE, problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The parsed TLS settings of one listener or client; a store is None if it is not configured."""

    key_store: StoreSettings | None
    trust_store: StoreSettings | None
    client_auth: ClientAuth
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    verifies_host_name: bool
    name: KeyNames

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the stores that are files."""
        stores = (self.key_store, self.trust_store)
        return tuple(store.location for store in stores if store is not None and store.location is not None)


def parse_tls_settings(texts: Mapping[str, str | None], name: KeyNames = PLAIN_NAMES) -> TlsSettings:
    """Return the settings of `texts`, by key; keys that are missing or None have Kafka's defaults."""
    values = {key: text for key, text in texts.items() if text is not None}
    _reject_unsupported(values, name)
    return TlsSettings(
        key_store=_key_store(values, name),
        trust_store=_trust_store(values, name),
        client_auth=ClientAuth(
            _one_of(values, name, "ssl.client.auth", "none", tuple(each.value for each in ClientAuth))
        ),
        versions=_versions(values, name),
        cipher_suites=split_list(values.get("ssl.cipher.suites", "")),
        verifies_host_name=_verifies_host_name(values, name),
        name=name,
    )


def _reject_unsupported(values: Mapping[str, str], name: KeyNames) -> None:
    for key in sorted(UNSUPPORTED_KEYS & values.keys()):
        if values[key].strip() and values[key].strip() not in _DEFAULT_ALGORITHMS.get(key, ()):
            raise ConfigError(name(key), values[key], "not supported; remove this key")


def _one_of(
    values: Mapping[str, str],
    name: KeyNames,
    key: str,
    default: str,
    allowed: tuple[str, ...],
) -> str:
    text = values.get(key, default).strip()
    if text not in allowed:
        raise ConfigError(name(key), text, f"allowed is one of: {', '.join(allowed)}")
    return text


def _versions(values: Mapping[str, str], name: KeyNames) -> tuple[str, ...]:
    protocol = _one_of(values, name, "ssl.protocol", "TLSv1.3", _PROTOCOLS)
    key = "ssl.enabled.protocols"
    text = values.get(key)
    if text is None:
        return TLS_VERSIONS
    versions = split_list(text)
    for version in versions:
        if version not in TLS_VERSIONS:
            raise ConfigError(name(key), version, f"allowed is a list of: {', '.join(TLS_VERSIONS)}")
    return versions or tuple(each for each in TLS_VERSIONS if protocol in ("TLS", "TLSv1.3", each))


def _verifies_host_name(values: Mapping[str, str], name: KeyNames) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    text = values.get(key, "https").strip()
    if text.lower() not in ("https", ""):
        raise ConfigError(name(key), text, "allowed is https, or an empty text for no verification")
    return bool(text)


def _key_store(values: Mapping[str, str], name: KeyNames) -> StoreSettings | None:
    key, chain = values.get("ssl.keystore.key"), values.get("ssl.keystore.certificate.chain")
    store = _store(values, name, "keystore", chain, key)
    if store is None:
        return None
    if store.location is None:
        for part, value in (("key", key), ("certificate.chain", chain)):
            if value is None:
                allowed = "a private key and its certificate chain are allowed only together"
                raise store.error(part, None, allowed)
    elif not store.is_pem and store.password is None:
        raise store.error("password", None, "a key store file of the type PKCS12 needs a password")
    if not store.is_pem and store.key_password not in (None, store.password):
        allowed = "allowed for PKCS12 is the value of ssl.keystore.password"
        raise ConfigError(name("ssl.key.password"), HIDDEN_VALUE, allowed)
    return store


def _trust_store(values: Mapping[str, str], name: KeyNames) -> StoreSettings | None:
    return _store(values, name, "truststore", values.get("ssl.truststore.certificates"), None)


def _store(
    values: Mapping[str, str], name: KeyNames, kind: str, pem: str | None, key_pem: str | None
) -> StoreSettings | None:
    """Return the settings of a store; None if neither a file nor PEM text is configured."""
    store = StoreSettings(
        kind=kind,
        name=name,
        is_pem=values.get(f"ssl.{kind}.type", "JKS").strip().upper() == "PEM",
        location=values.get(f"ssl.{kind}.location"),
        password=values.get(f"ssl.{kind}.password"),
        pem=pem,
        key_pem=key_pem,
        key_password=values.get("ssl.key.password") if kind == "keystore" else None,
    )
    has_text = pem is not None or key_pem is not None
    if store.location is None and not has_text:
        if store.password is not None:
            raise store.error("password", HIDDEN_VALUE, f"allowed only with ssl.{kind}.location")
        return None
    _check_type(store, values.get(f"ssl.{kind}.type", "JKS").strip(), has_text=has_text)
    if has_text and store.location is not None:
        allowed = "allowed is this or certificates in the configuration, not both"
        raise store.error("location", store.location, allowed)
    if store.is_pem and store.password is not None:
        raise store.error("password", HIDDEN_VALUE, "not allowed with the type PEM")
    return store


def _check_type(store: StoreSettings, store_type: str, *, has_text: bool) -> None:
    if store_type.upper() not in _STORE_TYPES:
        raise store.error("type", store_type, _CONVERSION)
    if has_text and not store.is_pem:
        raise store.error("type", store_type, "allowed is PEM if the certificates are in the configuration")
