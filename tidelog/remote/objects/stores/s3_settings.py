"""The settings of a bucket: the keys of Aiven's S3Storage, and keys that limit time and connections.

Source: io.aiven.kafka.tieredstorage.storage.s3.S3StorageConfig (names, bounds; timeouts have defaults only
here).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKind,
    ConfigValue,
    parse_values,
    reject_unknown_keys,
    table,
)
from tidelog.base.dataclass import dataclass

PART_BYTES_MIN: Final = 5 * 1024 * 1024
PARTS_MAX: Final = 10_000
_PART_BYTES_MAX: Final = 2**31 - 1 - 8
_TIME_MS_MAX: Final = 24 * 3600 * 1000

_DEFAULT_CHAIN: Final = "DefaultCredentialsProvider"
_ANONYMOUS: Final = "AnonymousCredentialsProvider"


def _check_url(value: ConfigValue) -> str | None:
    parts = urlsplit(str(value))
    is_valid = parts.scheme in ("http", "https") and parts.hostname
    return None if is_valid else "allowed is a URL that begins with http:// or https://"


def _check_provider(value: ConfigValue) -> str | None:
    is_valid = str(value).rpartition(".")[2] in (_DEFAULT_CHAIN, _ANONYMOUS)
    return None if is_valid else f"allowed is {_DEFAULT_CHAIN} or {_ANONYMOUS}"


def _text(key: str, documentation: str, **more: Any) -> ConfigDefinition:
    return ConfigDefinition(
        key=key, kind=ConfigKind.STRING, non_empty=True, documentation=documentation, **more
    )


def _number(key: str, default: int, minimum: int, maximum: int, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(
        key=key,
        kind=ConfigKind.LONG,
        default=default,
        minimum=minimum,
        maximum=maximum,
        documentation=documentation,
    )


def _switch(key: str, default: bool | None, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(key=key, kind=ConfigKind.BOOLEAN, default=default, documentation=documentation)


def _secret(key: str, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(key=key, kind=ConfigKind.PASSWORD, documentation=documentation)


CONFIGS: Final = table(
    [
        _text("s3.bucket.name", "The name of the bucket.", required=True),
        _text(
            "s3.region",
            "The region of the bucket. If it is not set, s3.endpoint.url is required, and us-east-1 is used.",
        ),
        _text(
            "s3.endpoint.url",
            "The URL of the endpoint. If it is not set, the endpoint of Amazon S3 in the region is used.",
            check=_check_url,
        ),
        _text("s3.storage.class", "The storage class of new objects.", default="STANDARD"),
        _switch(
            "s3.path.style.access.enabled",
            None,
            "Whether the bucket name is part of the path instead of the host name of a URL.",
        ),
        _number(
            "s3.multipart.upload.part.size",
            25 * 1024 * 1024,
            PART_BYTES_MIN,
            _PART_BYTES_MAX,
            "The size in bytes of a part of a multipart upload. Smaller objects are uploaded in one "
            "request. One part is held in memory.",
        ),
        _number(
            "s3.api.call.timeout",
            60_000,
            1,
            _TIME_MS_MAX,
            "The maximum time in milliseconds of a call, including its retries.",
        ),
        _number(
            "s3.api.call.attempt.timeout",
            30_000,
            1,
            _TIME_MS_MAX,
            "The maximum time in milliseconds of one attempt of a call.",
        ),
        _number("s3.api.call.attempts", 6, 1, 1000, "The maximum number of attempts of a call."),
        _number(
            "s3.connect.timeout",
            5_000,
            1,
            _TIME_MS_MAX,
            "The maximum time in milliseconds to establish a connection.",
        ),
        _number(
            "s3.read.timeout",
            10_000,
            1,
            _TIME_MS_MAX,
            "The maximum time in milliseconds to wait for data of the server.",
        ),
        _number(
            "s3.max.connections",
            64,
            1,
            10_000,
            "The maximum number of connections in the pool. Each calling thread uses one.",
        ),
        _switch(
            "s3.legacy.md5.plugin.enabled",
            False,
            "Whether requests contain Content-MD5, for servers that support no other checksum.",
        ),
        _text(
            "aws.credentials.provider.class",
            "The provider of credentials: DefaultCredentialsProvider or AnonymousCredentialsProvider.",
            check=_check_provider,
        ),
        _secret("aws.access.key.id", "The access key id of static credentials."),
        _secret("aws.secret.access.key", "The secret access key of static credentials."),
        _secret("aws.session.token", "The session token of static credentials."),
        _text(
            "aws.credentials.file",
            "The path of a properties file with the three preceding keys. It is read again after "
            "each change.",
        ),
        _switch("aws.certificate.check.enabled", True, "Whether the certificate of the server is verified."),
        _switch(
            "aws.checksum.check.enabled",
            False,
            "Whether the checksums of S3 are sent and verified in all requests. Uploads have one anyway.",
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """The settings of a bucket. Units: times in ms, sizes in bytes."""

    bucket: str
    region: str
    endpoint_url: str | None
    storage_class: str
    path_style: bool | None
    part_bytes: int
    call_timeout_ms: int
    attempt_timeout_ms: int
    attempts_max: int
    connect_timeout_ms: int
    read_timeout_ms: int
    connections_max: int
    legacy_md5: bool
    anonymous: bool
    access_key_id: str | None
    secret_access_key: str | None
    session_token: str | None
    credentials_file: str | None
    certificate_check: bool
    checksum_check: bool

    def __repr__(self) -> str:
        return (
            f"S3Settings(bucket={self.bucket!r}, region={self.region!r}, endpoint_url={self.endpoint_url!r})"
        )

    @classmethod
    def from_config(cls, values: Mapping[str, str]) -> S3Settings:
        """Return the settings in `values`. Errors: ConfigError, one line."""
        reject_unknown_keys(CONFIGS, values)
        parsed: Mapping[str, Any] = parse_values(CONFIGS, values)
        _check_credentials(parsed)
        region, endpoint_url = parsed["s3.region"], parsed["s3.endpoint.url"]
        if region is None and endpoint_url is None:
            raise ConfigError("s3.region", None, "a value is required without s3.endpoint.url")
        provider = str(parsed["aws.credentials.provider.class"])
        return cls(
            bucket=parsed["s3.bucket.name"],
            region=region or "us-east-1",
            endpoint_url=endpoint_url,
            storage_class=parsed["s3.storage.class"],
            path_style=parsed["s3.path.style.access.enabled"],
            part_bytes=parsed["s3.multipart.upload.part.size"],
            call_timeout_ms=parsed["s3.api.call.timeout"],
            attempt_timeout_ms=parsed["s3.api.call.attempt.timeout"],
            attempts_max=parsed["s3.api.call.attempts"],
            connect_timeout_ms=parsed["s3.connect.timeout"],
            read_timeout_ms=parsed["s3.read.timeout"],
            connections_max=parsed["s3.max.connections"],
            legacy_md5=parsed["s3.legacy.md5.plugin.enabled"],
            anonymous=provider.rpartition(".")[2] == _ANONYMOUS,
            access_key_id=parsed["aws.access.key.id"],
            secret_access_key=parsed["aws.secret.access.key"],
            session_token=parsed["aws.session.token"],
            credentials_file=parsed["aws.credentials.file"],
            certificate_check=parsed["aws.certificate.check.enabled"],
            checksum_check=parsed["aws.checksum.check.enabled"],
        )


def _check_credentials(parsed: Mapping[str, ConfigValue]) -> None:
    first, second = "aws.access.key.id", "aws.secret.access.key"
    if (parsed[first] is None) != (parsed[second] is None):
        raise ConfigError(first, "[hidden]", f"{first} and {second} must be set together")
    sources = [first, "aws.credentials.file", "aws.credentials.provider.class"]
    configured_sources = [key for key in sources if parsed[key] is not None]
    if len(configured_sources) > 1:
        raise ConfigError(
            configured_sources[0], "[hidden]", f"only one of {' and '.join(configured_sources)} may be set"
        )
