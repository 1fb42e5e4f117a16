"""Authentication, encryption, authorization and delegation tokens.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import (
    boolean,
    class_name,
    decimal,
    integer,
    long,
    optional_class_name,
    optional_integer,
    optional_text,
    password,
    short,
    text,
    text_list,
)


class SecurityKeys:
    """Authentication, encryption, authorization and delegation tokens."""

    authorizer_class_name = text(
        "authorizer.class.name",
        "",
        "The authorizer class. org.apache.kafka.metadata.authorizer.StandardAuthorizer decides by the access "
        "control entries; if it is empty, everything is allowed.",
    )
    super_users = text(
        "super.users",
        "",
        "The principals that may perform every operation, separated by semicolons, for example "
        "User:admin;User:broker. Those of brokers and controllers are usually among them.",
        internal=True,
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether every principal may access a resource for which there is no access control entry.",
        internal=True,
    )
    max_audit_lines_per_principal = integer(
        "max.audit.lines.per.principal",
        100,
        "The maximum number of denied accesses of a principal that kafka.authorizer.logger writes in ten "
        "seconds. Further ones are counted, and their number is written. -1 means no limit, as in Kafka. "
        "Tidelog's own key.",
        minimum=-1,
    )
    principal_builder_class = class_name(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The class that determines the principal of a connection. Only the default is allowed.",
    )
    security_providers = optional_text(
        "security.providers",
        "The classes that provide security algorithms, as a comma-separated list. Has no effect yet.",
    )
    delegation_token_secret_key = password(
        "delegation.token.secret.key",
        "The secret key with which delegation tokens are created and verified. It must be the same on all "
        "nodes, controllers included. Without it, or if it is empty, there are no delegation tokens.",
    )
    delegation_token_max_lifetime_ms = long(
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "The time in milliseconds after its creation after which a delegation token can no longer be "
        "renewed.",
        minimum=1,
    )
    delegation_token_expiry_time_ms = long(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "The time in milliseconds after which a delegation token expires if it is not renewed.",
        minimum=1,
    )
    delegation_token_expiry_check_interval_ms = long(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "The interval in milliseconds at which expired delegation tokens are removed.",
        minimum=1,
    )
    sasl_client_callback_handler_class = optional_class_name(
        "sasl.client.callback.handler.class",
        "The class of the callback handler of SASL clients. Has no effect yet.",
    )
    sasl_enabled_mechanisms = text_list(
        "sasl.enabled.mechanisms",
        ("GSSAPI",),
        "The SASL mechanisms that the server accepts, as a comma-separated list: PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 or OAUTHBEARER.",
    )
    sasl_jaas_config = password(
        "sasl.jaas.config",
        "The JAAS login context for SASL connections. It is set for each listener and mechanism: "
        "listener.name.<listener>.<mechanism>.sasl.jaas.config.",
    )
    sasl_kerberos_kinit_cmd = text(
        "sasl.kerberos.kinit.cmd",
        "/usr/bin/kinit",
        "The path of the Kerberos command kinit. Has no effect yet.",
    )
    sasl_kerberos_min_time_before_relogin = long(
        "sasl.kerberos.min.time.before.relogin",
        60_000,
        "The minimum time in milliseconds between two Kerberos logins. Has no effect yet.",
    )
    sasl_kerberos_principal_to_local_rules = text_list(
        "sasl.kerberos.principal.to.local.rules",
        ("DEFAULT",),
        "The rules that map Kerberos principals to short names, as a comma-separated list. The first rule "
        "that matches applies. Has no effect yet.",
    )
    sasl_kerberos_service_name = optional_text(
        "sasl.kerberos.service.name", "The Kerberos principal name of the broker. Has no effect yet."
    )
    sasl_kerberos_ticket_renew_jitter = decimal(
        "sasl.kerberos.ticket.renew.jitter",
        0.05,
        "The random part of the time before a Kerberos ticket is renewed, as a share of this time. Has no "
        "effect yet.",
    )
    sasl_kerberos_ticket_renew_window_factor = decimal(
        "sasl.kerberos.ticket.renew.window.factor",
        0.8,
        "The share of the lifetime of a Kerberos ticket after which the ticket is renewed. Has no effect "
        "yet.",
    )
    sasl_login_callback_handler_class = optional_class_name(
        "sasl.login.callback.handler.class",
        "The class that obtains the tokens of OAUTHBEARER for connections to other nodes. It is set for each "
        "listener: listener.name.<listener>.oauthbearer.sasl.login.callback.handler.class.",
    )
    sasl_login_class = optional_class_name(
        "sasl.login.class", "The class that performs the SASL login. Has no effect yet."
    )
    sasl_login_connect_timeout_ms = optional_integer(
        "sasl.login.connect.timeout.ms",
        "The maximum time in milliseconds to connect to the identity provider.",
    )
    sasl_login_read_timeout_ms = optional_integer(
        "sasl.login.read.timeout.ms",
        "The maximum time in milliseconds to wait for a response of the identity provider.",
    )
    sasl_login_refresh_buffer_seconds = short(
        "sasl.login.refresh.buffer.seconds",
        300,
        "The time in seconds before the expiration of a credential at which it must have been refreshed.",
    )
    sasl_login_refresh_min_period_seconds = short(
        "sasl.login.refresh.min.period.seconds",
        60,
        "The minimum time in seconds before a credential is refreshed.",
    )
    sasl_login_refresh_window_factor = decimal(
        "sasl.login.refresh.window.factor",
        0.8,
        "The share of the lifetime of a credential after which the credential is refreshed.",
    )
    sasl_login_refresh_window_jitter = decimal(
        "sasl.login.refresh.window.jitter",
        0.05,
        "The random part of the time before a credential is refreshed, as a share of its lifetime.",
    )
    sasl_login_retry_backoff_ms = long(
        "sasl.login.retry.backoff.ms",
        100,
        "The initial time in milliseconds before a failed login is retried.",
    )
    sasl_login_retry_backoff_max_ms = long(
        "sasl.login.retry.backoff.max.ms",
        10_000,
        "The maximum time in milliseconds before a failed login is retried.",
    )
    sasl_mechanism_controller_protocol = text(
        "sasl.mechanism.controller.protocol",
        "GSSAPI",
        "The SASL mechanism for connections to controllers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "
        "OAUTHBEARER.",
    )
    sasl_mechanism_inter_broker_protocol = text(
        "sasl.mechanism.inter.broker.protocol",
        "GSSAPI",
        "The SASL mechanism for connections between brokers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "
        "OAUTHBEARER.",
    )
    sasl_oauthbearer_assertion_algorithm = text(
        "sasl.oauthbearer.assertion.algorithm",
        "RS256",
        "The algorithm with which the assertion is signed.",
        valid_values=(
            "ES256",
            "RS256",
        ),
        ignore_case=True,
    )
    sasl_oauthbearer_assertion_claim_aud = optional_text(
        "sasl.oauthbearer.assertion.claim.aud",
        "The audience (claim aud) of the assertion.",
    )
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        300,
        "The time in seconds after which the assertion expires.",
        minimum=0,
        maximum=86_400,
    )
    sasl_oauthbearer_assertion_claim_iss = optional_text(
        "sasl.oauthbearer.assertion.claim.iss", "The issuer (claim iss) of the assertion."
    )
    sasl_oauthbearer_assertion_claim_jti_include = boolean(
        "sasl.oauthbearer.assertion.claim.jti.include",
        False,
        "Whether the assertion contains a unique id (claim jti).",
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        60,
        "The time in seconds before its creation from which the assertion is valid (claim nbf).",
        minimum=0,
        maximum=3600,
    )
    sasl_oauthbearer_assertion_claim_sub = optional_text(
        "sasl.oauthbearer.assertion.claim.sub", "The subject (claim sub) of the assertion."
    )
    sasl_oauthbearer_assertion_file = optional_text(
        "sasl.oauthbearer.assertion.file",
        "The path of a file that contains a signed assertion. The environment variable "
        "TIDELOG_SASL_OAUTHBEARER_ALLOWED_FILES must contain it, as for the other files of assertions.",
    )
    sasl_oauthbearer_assertion_private_key_file = optional_text(
        "sasl.oauthbearer.assertion.private.key.file",
        "The path of the PEM file of the private key that signs the assertion.",
    )
    sasl_oauthbearer_assertion_private_key_passphrase = password(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "The passphrase of the private key that signs the assertion.",
    )
    sasl_oauthbearer_assertion_template_file = optional_text(
        "sasl.oauthbearer.assertion.template.file",
        "The path of a JSON file with further headers and claims of the assertion.",
    )
    sasl_oauthbearer_client_credentials_client_id = optional_text(
        "sasl.oauthbearer.client.credentials.client.id",
        "The client id of the OAuth client credentials grant.",
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        "sasl.oauthbearer.client.credentials.client.secret",
        "The client secret of the OAuth client credentials grant.",
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "The difference in seconds that is tolerated between the clocks of the identity provider and of "
        "the broker.",
    )
    sasl_oauthbearer_expected_audience = text_list(
        "sasl.oauthbearer.expected.audience",
        (),
        "The accepted audiences of a token, as a comma-separated list. A token must contain one of them.",
    )
    sasl_oauthbearer_expected_issuer = optional_text(
        "sasl.oauthbearer.expected.issuer", "The issuer that a token must contain."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "The interval in milliseconds at which the key set (JWKS) of the identity provider is fetched.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "The initial time in milliseconds before a failed fetch of the key set (JWKS) is retried.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        "The maximum time in milliseconds before a failed fetch of the key set (JWKS) is retried.",
    )
    sasl_oauthbearer_jwks_endpoint_url = optional_text(
        "sasl.oauthbearer.jwks.endpoint.url",
        "The URL of the key set (JWKS) of the identity provider: http, https or file. The environment "
        "variable TIDELOG_SASL_OAUTHBEARER_ALLOWED_URLS must contain it.",
    )
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "The class that retrieves tokens.",
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "The class that validates tokens.",
    )
    sasl_oauthbearer_scope = optional_text(
        "sasl.oauthbearer.scope", "The scope with which a token is requested."
    )
    sasl_oauthbearer_scope_claim_name = text(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        "The name of the claim that contains the scope of a token.",
    )
    sasl_oauthbearer_sub_claim_name = text(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The name of the claim that contains the subject of a token.",
    )
    sasl_oauthbearer_token_endpoint_url = optional_text(
        "sasl.oauthbearer.token.endpoint.url", "The URL from which tokens are requested."
    )
    sasl_server_callback_handler_class = optional_class_name(
        "sasl.server.callback.handler.class",
        "The class that validates the tokens of OAUTHBEARER. It is set for each listener: "
        "listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class.",
    )
    sasl_server_max_receive_size = integer(
        "sasl.server.max.receive.size",
        524_288,
        "The maximum size in bytes of a frame before the client is authenticated.",
    )
    ssl_allow_dn_changes = boolean(
        "ssl.allow.dn.changes",
        False,
        "Whether a new certificate of this node can have another distinguished name.",
    )
    ssl_allow_san_changes = boolean(
        "ssl.allow.san.changes",
        False,
        "Whether a new certificate of this node can lack subject alternative names of the former one.",
    )
    ssl_cipher_suites = text_list(
        "ssl.cipher.suites",
        (),
        "The enabled cipher suites, as a comma-separated list. An empty list enables all that are available.",
    )
    ssl_client_auth = text(
        "ssl.client.auth",
        "none",
        "Whether clients must authenticate with a certificate: required, requested or none.",
        valid_values=(
            "required",
            "requested",
            "none",
        ),
    )
    ssl_enabled_protocols = text_list(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "The enabled TLS versions, as a comma-separated list.",
    )
    ssl_endpoint_identification_algorithm = text(
        "ssl.endpoint.identification.algorithm",
        "https",
        "The algorithm that verifies the host name in a server's certificate. An empty text disables the "
        "verification.",
    )
    ssl_engine_factory_class = optional_class_name(
        "ssl.engine.factory.class", "The class that creates SSL engines. Not supported."
    )
    ssl_key_password = password("ssl.key.password", "The password of the private key.")
    ssl_keymanager_algorithm = text(
        "ssl.keymanager.algorithm",
        "SunX509",
        "The algorithm of the key manager. Only the default is allowed.",
    )
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain",
        "The certificate chain of this node, in PEM format.",
    )
    ssl_keystore_key = password("ssl.keystore.key", "The private key of this node, in PEM format.")
    ssl_keystore_location = optional_text("ssl.keystore.location", "The path of the key store file.")
    ssl_keystore_password = password("ssl.keystore.password", "The password of the key store file.")
    ssl_keystore_type = text(
        "ssl.keystore.type", "JKS", "The format of the key store file: JKS, PKCS12 or PEM."
    )
    ssl_principal_mapping_rules = text(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "The rules that map the distinguished name of a client's certificate to a short name. The first "
        "rule that matches applies.",
    )
    ssl_protocol = text("ssl.protocol", "TLSv1.3", "The preferred TLS version.")
    ssl_provider = optional_text("ssl.provider", "The security provider for TLS connections. Not supported.")
    ssl_secure_random_implementation = optional_text(
        "ssl.secure.random.implementation",
        "The implementation of the random number generator for TLS. Not supported.",
    )
    ssl_trustmanager_algorithm = text(
        "ssl.trustmanager.algorithm",
        "PKIX",
        "The algorithm of the trust manager. Only the default is allowed.",
    )
    ssl_truststore_certificates = password(
        "ssl.truststore.certificates", "The trusted certificates, in PEM format."
    )
    ssl_truststore_location = optional_text("ssl.truststore.location", "The path of the trust store file.")
    ssl_truststore_password = password("ssl.truststore.password", "The password of the trust store file.")
    ssl_truststore_type = text(
        "ssl.truststore.type",
        "JKS",
        "The format of the trust store file: JKS, PKCS12 or PEM.",
    )
