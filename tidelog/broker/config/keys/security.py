"""Authentication, encryption, authorization and delegation tokens.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
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
        "authorizer.class.name", "", "Class that authorizes requests; if empty, every request is allowed."
    )
    principal_builder_class = class_name(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Class that returns the principal of a connection.",
    )
    security_providers = optional_text("security.providers", "Classes that provide security algorithms.")
    delegation_token_secret_key = password(
        "delegation.token.secret.key", "Secret with which delegation tokens are created."
    )
    delegation_token_max_lifetime_ms = long(
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "Time after which a delegation token cannot be renewed.",
        minimum=1,
    )
    delegation_token_expiry_time_ms = long(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "Time for which a delegation token is valid before renewal.",
        minimum=1,
    )
    delegation_token_expiry_check_interval_ms = long(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "Time between two looks for delegation tokens to remove.",
        minimum=1,
    )
    sasl_client_callback_handler_class = optional_class_name(
        "sasl.client.callback.handler.class", "Class that handles callbacks of the client side of SASL."
    )
    sasl_enabled_mechanisms = text_list(
        "sasl.enabled.mechanisms", ("GSSAPI",), "SASL mechanisms that clients may use."
    )
    sasl_jaas_config = password("sasl.jaas.config", "Login settings of SASL listeners.")
    sasl_kerberos_kinit_cmd = text(
        "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Command that gets Kerberos tickets."
    )
    sasl_kerberos_min_time_before_relogin = long(
        "sasl.kerberos.min.time.before.relogin",
        60_000,
        "Shortest time between two Kerberos logins, in milliseconds.",
    )
    sasl_kerberos_principal_to_local_rules = text_list(
        "sasl.kerberos.principal.to.local.rules",
        ("DEFAULT",),
        "Rules that turn Kerberos principals into user names.",
    )
    sasl_kerberos_service_name = optional_text("sasl.kerberos.service.name", "Kerberos name of this service.")
    sasl_kerberos_ticket_renew_jitter = decimal(
        "sasl.kerberos.ticket.renew.jitter", 0.05, "Random share of the time before a ticket is renewed."
    )
    sasl_kerberos_ticket_renew_window_factor = decimal(
        "sasl.kerberos.ticket.renew.window.factor", 0.8, "Share of a ticket's life after which it is renewed."
    )
    sasl_login_callback_handler_class = optional_class_name(
        "sasl.login.callback.handler.class", "Class that handles callbacks of the login."
    )
    sasl_login_class = optional_class_name("sasl.login.class", "Class that performs the login.")
    sasl_login_connect_timeout_ms = optional_integer(
        "sasl.login.connect.timeout.ms", "Longest time to connect to an identity provider."
    )
    sasl_login_read_timeout_ms = optional_integer(
        "sasl.login.read.timeout.ms", "Longest time to wait for an identity provider's response."
    )
    sasl_login_refresh_buffer_seconds = short(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Time before a credential's end in which it is not refreshed.",
    )
    sasl_login_refresh_min_period_seconds = short(
        "sasl.login.refresh.min.period.seconds", 60, "Shortest time between two refreshes of a credential."
    )
    sasl_login_refresh_window_factor = decimal(
        "sasl.login.refresh.window.factor", 0.8, "Share of a credential's life after which it is refreshed."
    )
    sasl_login_refresh_window_jitter = decimal(
        "sasl.login.refresh.window.jitter", 0.05, "Random share of the time before a credential is refreshed."
    )
    sasl_login_retry_backoff_ms = long(
        "sasl.login.retry.backoff.ms", 100, "Time before a failed login is tried again at first."
    )
    sasl_login_retry_backoff_max_ms = long(
        "sasl.login.retry.backoff.max.ms",
        10_000,
        "Time before a failed login is tried again after many failures.",
    )
    sasl_mechanism_controller_protocol = text(
        "sasl.mechanism.controller.protocol", "GSSAPI", "SASL mechanism between brokers and controllers."
    )
    sasl_mechanism_inter_broker_protocol = text(
        "sasl.mechanism.inter.broker.protocol", "GSSAPI", "SASL mechanism between brokers."
    )
    sasl_oauthbearer_assertion_algorithm = text(
        "sasl.oauthbearer.assertion.algorithm",
        "RS256",
        "Algorithm that signs assertions.",
        valid_values=(
            "ES256",
            "RS256",
        ),
        ignore_case=True,
    )
    sasl_oauthbearer_assertion_claim_aud = optional_text(
        "sasl.oauthbearer.assertion.claim.aud", "Audience of assertions."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        300,
        "Time for which assertions are valid.",
        minimum=0,
        maximum=86_400,
    )
    sasl_oauthbearer_assertion_claim_iss = optional_text(
        "sasl.oauthbearer.assertion.claim.iss", "Issuer of assertions."
    )
    sasl_oauthbearer_assertion_claim_jti_include = boolean(
        "sasl.oauthbearer.assertion.claim.jti.include", False, "Whether assertions have an id."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        60,
        "Time before now from which assertions are valid.",
        minimum=0,
        maximum=3600,
    )
    sasl_oauthbearer_assertion_claim_sub = optional_text(
        "sasl.oauthbearer.assertion.claim.sub", "Subject of assertions."
    )
    sasl_oauthbearer_assertion_file = optional_text(
        "sasl.oauthbearer.assertion.file", "File that holds a finished assertion."
    )
    sasl_oauthbearer_assertion_private_key_file = optional_text(
        "sasl.oauthbearer.assertion.private.key.file", "File of the key that signs assertions."
    )
    sasl_oauthbearer_assertion_private_key_passphrase = password(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "Secret that opens the key that signs assertions.",
    )
    sasl_oauthbearer_assertion_template_file = optional_text(
        "sasl.oauthbearer.assertion.template.file", "File of a template for assertions."
    )
    sasl_oauthbearer_client_credentials_client_id = optional_text(
        "sasl.oauthbearer.client.credentials.client.id", "Client id for requesting a token."
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        "sasl.oauthbearer.client.credentials.client.secret", "Client secret for requesting a token."
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        "sasl.oauthbearer.clock.skew.seconds", 30, "Difference of clocks that is tolerated."
    )
    sasl_oauthbearer_expected_audience = text_list(
        "sasl.oauthbearer.expected.audience", (), "Audiences one of which a token must name."
    )
    sasl_oauthbearer_expected_issuer = optional_text(
        "sasl.oauthbearer.expected.issuer", "Issuer that a token must name."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "Time between two fetches of the provider's keys.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "Time before a failed fetch of keys is tried again at first.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        "Time before a failed fetch of keys is tried again after many failures.",
    )
    sasl_oauthbearer_jwks_endpoint_url = optional_text(
        "sasl.oauthbearer.jwks.endpoint.url", "Address of the provider's keys."
    )
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Class that gets tokens.",
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "Class that checks tokens.",
    )
    sasl_oauthbearer_scope = optional_text("sasl.oauthbearer.scope", "Scope for requesting a token.")
    sasl_oauthbearer_scope_claim_name = text(
        "sasl.oauthbearer.scope.claim.name", "scope", "Claim of a token that holds its scopes."
    )
    sasl_oauthbearer_sub_claim_name = text(
        "sasl.oauthbearer.sub.claim.name", "sub", "Claim of a token that names its subject."
    )
    sasl_oauthbearer_token_endpoint_url = optional_text(
        "sasl.oauthbearer.token.endpoint.url", "Address from which tokens are requested."
    )
    sasl_server_callback_handler_class = optional_class_name(
        "sasl.server.callback.handler.class", "Class that handles callbacks of the server side of SASL."
    )
    sasl_server_max_receive_size = integer(
        "sasl.server.max.receive.size", 524_288, "Largest SASL message before a client is authenticated."
    )
    ssl_allow_dn_changes = boolean(
        "ssl.allow.dn.changes", False, "Whether a new certificate may have another name."
    )
    ssl_allow_san_changes = boolean(
        "ssl.allow.san.changes", False, "Whether a new certificate may lack names of the old one."
    )
    ssl_cipher_suites = text_list("ssl.cipher.suites", (), "Cipher suites that may be used; all when empty.")
    ssl_client_auth = text(
        "ssl.client.auth",
        "none",
        "Whether clients must, may or need not show a certificate.",
        valid_values=(
            "required",
            "requested",
            "none",
        ),
    )
    ssl_enabled_protocols = text_list(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "TLS versions that may be used."
    )
    ssl_endpoint_identification_algorithm = text(
        "ssl.endpoint.identification.algorithm", "https", "How the name in a server's certificate is checked."
    )
    ssl_engine_factory_class = optional_class_name(
        "ssl.engine.factory.class", "Class that creates TLS engines."
    )
    ssl_key_password = password("ssl.key.password", "Secret that opens the private key.")
    ssl_keymanager_algorithm = text("ssl.keymanager.algorithm", "SunX509", "Algorithm of the key manager.")
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain", "Certificates of this node, in PEM."
    )
    ssl_keystore_key = password("ssl.keystore.key", "Private key of this node, in PEM.")
    ssl_keystore_location = optional_text(
        "ssl.keystore.location", "File of this node's key and certificates."
    )
    ssl_keystore_password = password("ssl.keystore.password", "Secret that opens the key file.")
    ssl_keystore_type = text("ssl.keystore.type", "JKS", "Format of the key file.")
    ssl_principal_mapping_rules = text(
        "ssl.principal.mapping.rules", "DEFAULT", "Rules that turn certificate names into user names."
    )
    ssl_protocol = text("ssl.protocol", "TLSv1.3", "TLS version that is preferred.")
    ssl_provider = optional_text("ssl.provider", "Provider of TLS.")
    ssl_secure_random_implementation = optional_text(
        "ssl.secure.random.implementation", "Source of random numbers for TLS."
    )
    ssl_trustmanager_algorithm = text("ssl.trustmanager.algorithm", "PKIX", "Algorithm of the trust manager.")
    ssl_truststore_certificates = password(
        "ssl.truststore.certificates", "Certificates that are trusted, in PEM."
    )
    ssl_truststore_location = optional_text(
        "ssl.truststore.location", "File of the certificates that are trusted."
    )
    ssl_truststore_password = password(
        "ssl.truststore.password", "Secret that opens the file of trusted certificates."
    )
    ssl_truststore_type = text("ssl.truststore.type", "JKS", "Format of the file of trusted certificates.")
