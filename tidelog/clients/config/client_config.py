"""The options of producers, consumers and admin clients, with Kafka's names and defaults.

Names are Kafka's keys with underscores instead of dots. Names end with their units (`_ms`, `_bytes`);
`batch_size`, `buffer_memory` and `max_request_size` are in bytes, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from ssl import SSLContext
from typing import Any, TypeAlias, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.clients.config.options import (
    ConfigError,
    parse_bootstrap_servers,
    require_between,
    require_bool,
    require_one_of,
    require_text,
    unknown_option,
)
from tidelog.clients.config.sasl_credentials import SaslCredentials, parse_credentials
from tidelog.security.jaas import LOGIN_MODULES, JaasError
from tidelog.security.oauthbearer.messages import OAUTHBEARER

ContextSource: TypeAlias = Callable[[], SSLContext]
"""Returns the TLS context for the next connection."""

TokenProvider: TypeAlias = Callable[[], object]
"""Returns a token, or a pair of a token and the seconds since 1970 at which it expires."""

_INT32_MAX = 2**31 - 1
_COMPRESSION_LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The options of every client.

    `receive_buffer_bytes`, `send_buffer_bytes`: socket buffers; -1 means the system's default.
    `max_response_bytes` limits one response frame; Kafka's clients have no such option. `ssl_context` is used
    instead of the options `ssl_*`; it can be a function that returns the context for the next connection.
    `sasl_mechanism` and `sasl_jaas_config` apply if `security_protocol` is SASL_PLAINTEXT or SASL_SSL.
    Without a JAAS config, the caller passes an authenticator to the client. With the mechanism OAUTHBEARER,
    `oauth_token_provider` is a function, or a coroutine function, that returns a token, or a token and the
    seconds since 1970 at which it expires. Without it, the options `sasl_login_*` and `sasl_oauthbearer_*`
    apply as in Kafka.
    """

    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    client_id: str = "tidelog"
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    receive_buffer_bytes: int = 65_536
    send_buffer_bytes: int = 131_072
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    security_protocol: str = "PLAINTEXT"
    ssl_context: SSLContext | ContextSource | None = None
    ssl_cipher_suites: str = ""
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_keystore_key: str | None = field(default=None, repr=False)
    ssl_keystore_location: str | None = None
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_keystore_type: str = "JKS"
    ssl_protocol: str = "TLSv1.3"
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_truststore_location: str | None = None
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_truststore_type: str = "JKS"
    sasl_mechanism: str = "GSSAPI"
    sasl_jaas_config: str | None = field(default=None, repr=False)
    oauth_token_provider: TokenProvider | None = None
    sasl_login_callback_handler_class: str | None = None
    sasl_login_connect_timeout_ms: int | None = None
    sasl_login_read_timeout_ms: int | None = None
    sasl_login_refresh_buffer_seconds: int = 300
    sasl_login_refresh_min_period_seconds: int = 60
    sasl_login_refresh_window_factor: float = 0.8
    sasl_login_refresh_window_jitter: float = 0.05
    sasl_login_retry_backoff_ms: int = 100
    sasl_login_retry_backoff_max_ms: int = 10_000
    sasl_oauthbearer_assertion_algorithm: str = "RS256"
    sasl_oauthbearer_assertion_claim_aud: str | None = None
    sasl_oauthbearer_assertion_claim_exp_seconds: int = 300
    sasl_oauthbearer_assertion_claim_iss: str | None = None
    sasl_oauthbearer_assertion_claim_jti_include: bool = False
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = 60
    sasl_oauthbearer_assertion_claim_sub: str | None = None
    sasl_oauthbearer_assertion_file: str | None = None
    sasl_oauthbearer_assertion_private_key_file: str | None = None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = field(default=None, repr=False)
    sasl_oauthbearer_assertion_template_file: str | None = None
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: str | None = field(default=None, repr=False)
    sasl_oauthbearer_header_urlencode: bool = False
    sasl_oauthbearer_jwt_retriever_class: str = (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"
    )
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_scope_claim_name: str = "scope"
    sasl_oauthbearer_sub_claim_name: str = "sub"
    sasl_oauthbearer_token_endpoint_url: str | None = None
    max_response_bytes: int = 104_857_600

    def __post_init__(self) -> None:
        parse_bootstrap_servers(self.bootstrap_servers)
        require_text("client_id", self.client_id)
        require_one_of("security_protocol", self.security_protocol, ("PLAINTEXT", "SSL", *_SASL_PROTOCOLS))
        _check_sasl(self)
        for option in ("receive_buffer_bytes", "send_buffer_bytes"):
            require_between(option, getattr(self, option), -1)
        for option in _DURATIONS:
            require_between(option, getattr(self, option), 0, _INT32_MAX)
        require_between("max_response_bytes", self.max_response_bytes, 1_024, _INT32_MAX)
        require_between("request_timeout_ms", self.request_timeout_ms, 1, _INT32_MAX)

    @property
    def uses_sasl(self) -> bool:
        """Whether connections must be authenticated by SASL."""
        return self.security_protocol in _SASL_PROTOCOLS

    @property
    def sasl_credentials(self) -> SaslCredentials | None:
        """The credentials for PLAIN and SCRAM; None if neither is used, or without a JAAS config."""
        if not self.uses_sasl or self.sasl_jaas_config is None or self.sasl_mechanism == OAUTHBEARER:
            return None
        return parse_credentials(self.sasl_mechanism, self.sasl_jaas_config)

    @property
    def bootstrap_addresses(self) -> tuple[tuple[str, int], ...]:
        """The (host, port) pairs of `bootstrap_servers`."""
        return parse_bootstrap_servers(self.bootstrap_servers)


def _check_sasl(config: ClientConfig) -> None:
    """Raise ConfigError for a mechanism or a JAAS config that cannot be used; its text has no secret."""
    if config.uses_sasl and config.sasl_mechanism == OAUTHBEARER:
        # The login checks its other options when it is created.
        for option in _LOGIN_NUMBERS:
            require_between(option, getattr(config, option), 0, _INT32_MAX)
        for option in ("sasl_login_connect_timeout_ms", "sasl_login_read_timeout_ms"):
            if getattr(config, option) is not None:
                require_between(option, getattr(config, option), 1, _INT32_MAX)
        require_one_of(
            "sasl_oauthbearer_assertion_algorithm",
            config.sasl_oauthbearer_assertion_algorithm.upper(),
            ("ES256", "RS256"),
        )
        return
    if not config.uses_sasl or config.sasl_jaas_config is None:
        return
    require_one_of("sasl_mechanism", config.sasl_mechanism, LOGIN_MODULES)
    try:
        parse_credentials(config.sasl_mechanism, config.sasl_jaas_config)
    except JaasError as error:
        raise ConfigError("sasl_jaas_config", "[hidden]", str(error)) from None


_SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_NUMBERS = (
    "sasl_login_refresh_buffer_seconds",
    "sasl_login_refresh_min_period_seconds",
    "sasl_login_retry_backoff_ms",
    "sasl_login_retry_backoff_max_ms",
    "sasl_oauthbearer_assertion_claim_exp_seconds",
    "sasl_oauthbearer_assertion_claim_nbf_seconds",
)
_DURATIONS = (
    "connections_max_idle_ms",
    "metadata_max_age_ms",
    "reconnect_backoff_ms",
    "reconnect_backoff_max_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "socket_connection_setup_timeout_ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """The options of a producer.

    `acks`: 0 (do not wait), 1 (leader) or "all". `compression_level`: gzip 1-9, lz4 1-17, zstd -131072-22;
    None means the codec's default. `transaction_timeout_ms`: the coordinator aborts a transaction that is
    open for this time.
    """

    acks: int | str = "all"
    batch_size: int = 16_384
    linger_ms: int = 5
    buffer_memory: int = 33_554_432
    compression_type: str = "none"
    compression_level: int | None = None
    delivery_timeout_ms: int = 120_000
    enable_idempotence: bool = True
    max_block_ms: int = 60_000
    max_in_flight_requests_per_connection: int = 5
    max_request_size: int = 1_048_576
    metadata_max_idle_ms: int = 300_000
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_ignore_keys: bool = False
    receive_buffer_bytes: int = 32_768
    retries: int = _INT32_MAX
    transaction_timeout_ms: int = 60_000
    transactional_id: str | None = None

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        require_one_of("acks", self.acks, (0, 1, -1, "0", "1", "-1", "all"))
        require_one_of("compression_type", self.compression_type, ("none", "gzip", "snappy", "lz4", "zstd"))
        if self.compression_level is not None and self.compression_type in _COMPRESSION_LEVELS:
            levels = _COMPRESSION_LEVELS[self.compression_type]
            require_between("compression_level", self.compression_level, *levels)
        require_between("batch_size", self.batch_size, 0, _INT32_MAX)
        require_between("buffer_memory", self.buffer_memory, 1)
        require_between("max_request_size", self.max_request_size, 1, _INT32_MAX)
        require_between("retries", self.retries, 0, _INT32_MAX)
        require_between("linger_ms", self.linger_ms, 0, _INT32_MAX)
        require_between("max_block_ms", self.max_block_ms, 0, _INT32_MAX)
        require_between("metadata_max_idle_ms", self.metadata_max_idle_ms, 5_000, _INT32_MAX)
        require_between(
            "max_in_flight_requests_per_connection", self.max_in_flight_requests_per_connection, 1
        )
        for option in (
            "enable_idempotence",
            "partitioner_ignore_keys",
            "partitioner_adaptive_partitioning_enable",
        ):
            require_bool(option, getattr(self, option))
        least = self.linger_ms + self.request_timeout_ms
        require_between("delivery_timeout_ms", self.delivery_timeout_ms, 0, _INT32_MAX)
        if self.delivery_timeout_ms < least:
            raise ConfigError(
                "delivery_timeout_ms",
                self.delivery_timeout_ms,
                f"at least linger_ms + request_timeout_ms = {least}",
            )
        require_between("transaction_timeout_ms", self.transaction_timeout_ms, 1, _INT32_MAX)
        if self.transactional_id is not None:
            require_text("transactional_id", self.transactional_id)
            if not self.transactional_id:
                raise ConfigError("transactional_id", "", "a name of at least one character, or None")
            require_one_of("enable_idempotence", self.enable_idempotence, (True,))
        if self.enable_idempotence:
            self._require_idempotence_possible()

    def _require_idempotence_possible(self) -> None:
        """Raise ConfigError unless acks=all, with retries and at most five requests in flight (KIP-679)."""
        if self.required_acks != -1:
            raise ConfigError("acks", self.acks, "'all' while enable_idempotence is True")
        if self.retries == 0:
            raise ConfigError("retries", self.retries, "at least 1 while enable_idempotence is True")
        in_flight = self.max_in_flight_requests_per_connection
        if in_flight > 5:
            option = "max_in_flight_requests_per_connection"
            raise ConfigError(option, in_flight, "at most 5 while enable_idempotence is True")

    @property
    def required_acks(self) -> int:
        """`acks` as in a Produce request: 0, 1, or -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """The options of a consumer.

    `group_protocol`: "consumer" is the protocol of KIP-848, in which the coordinator assigns the partitions,
    by the assignor `group_remote_assignor` if it is given. `session_timeout_ms`, `heartbeat_interval_ms` and
    `partition_assignment_strategy` are for the protocol "classic".
    `partition_assignment_strategy`: names in order of preference. `auto_offset_reset`: where to start without
    a committed offset ("none" raises an error). `max_decompressed_bytes` limits the decompressed size of one
    batch; Kafka's clients have no such option.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    allow_auto_create_topics: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: str = "latest"
    check_crcs: bool = True
    client_rack: str = ""
    default_api_timeout_ms: int = 60_000
    enable_auto_commit: bool = True
    exclude_internal_topics: bool = True
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    heartbeat_interval_ms: int = 3_000
    isolation_level: str = "read_uncommitted"
    max_partition_fetch_bytes: int = 1_048_576
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    partition_assignment_strategy: Sequence[str] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    max_decompressed_bytes: int = 268_435_456

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        require_one_of("group_protocol", self.group_protocol, ("classic", "consumer"))
        for option in ("group_id", "group_instance_id", "group_remote_assignor"):
            if getattr(self, option) is not None:
                require_text(option, getattr(self, option))
        require_one_of("auto_offset_reset", self.auto_offset_reset, ("earliest", "latest", "none"))
        require_one_of("isolation_level", self.isolation_level, ("read_uncommitted", "read_committed"))
        for option in (
            "allow_auto_create_topics",
            "check_crcs",
            "enable_auto_commit",
            "exclude_internal_topics",
        ):
            require_bool(option, getattr(self, option))
        require_between("default_api_timeout_ms", self.default_api_timeout_ms, 0, _INT32_MAX)
        for option in ("auto_commit_interval_ms", "fetch_max_bytes", "fetch_max_wait_ms", "fetch_min_bytes"):
            require_between(option, getattr(self, option), 0, _INT32_MAX)
        for option in (
            "heartbeat_interval_ms",
            "max_partition_fetch_bytes",
            "max_poll_interval_ms",
            "max_poll_records",
            "session_timeout_ms",
            "max_decompressed_bytes",
        ):
            require_between(option, getattr(self, option), 1, _INT32_MAX)
        if isinstance(self.partition_assignment_strategy, str) or not self.partition_assignment_strategy:
            raise ConfigError(
                "partition_assignment_strategy",
                self.partition_assignment_strategy,
                "a sequence of names out of " + ", ".join(_ASSIGNORS),
            )
        for name in self.partition_assignment_strategy:
            require_one_of("partition_assignment_strategy", name, _ASSIGNORS)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            allowed = f"less than session_timeout_ms={self.session_timeout_ms}"
            raise ConfigError("heartbeat_interval_ms", self.heartbeat_interval_ms, allowed)
        if self.group_id == "":
            raise ConfigError("group_id", self.group_id, "a name of at least one character, or None")

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are not returned."""
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """The options of an admin client; `retries` limits how often one call is retried."""

    connections_max_idle_ms: int = 300_000
    default_api_timeout_ms: int = 60_000
    retries: int = _INT32_MAX

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        require_between("retries", self.retries, 0, _INT32_MAX)
        require_between("default_api_timeout_ms", self.default_api_timeout_ms, 0, _INT32_MAX)


ConfigT = TypeVar("ConfigT", bound=ClientConfig)


def make_config(config_type: type[ConfigT], options: Mapping[str, Any]) -> ConfigT:
    """Return the config with `options`; raise ConfigError for an unknown option."""
    known = {field.name for field in fields(config_type)}
    for option, value in options.items():
        if option not in known:
            raise unknown_option(option, value, known)
    return config_type(**options)
