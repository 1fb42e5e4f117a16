"""The TLS context of `kafka.ssl.*` options."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tidelog.security.certificate_authority import Authority
from tidelog.spark_connector.connections.tls import tls_context, tls_values
from tidelog.spark_connector.planning.client_options import ClientOptions
from tidelog.spark_connector.planning.option_values import OptionError

AUTHORITY = Authority.create()


def test_key_and_trust_stores_are_pem_files_by_default(tmp_path: Path) -> None:
    context = tls_context(
        {
            "ssl.truststore.location": str(AUTHORITY.write(tmp_path / "ca.pem")),
            "ssl.keystore.location": str(AUTHORITY.issue("alice").write_pem(tmp_path / "a.pem", "secret")),
            "ssl.key.password": "secret",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert context.verify_mode is ssl.CERT_REQUIRED and not context.check_hostname
    assert context.cert_store_stats()["x509"] == 1


def test_no_tls_context_without_tls() -> None:
    assert tls_values(ClientOptions({"security_protocol": "PLAINTEXT"})) == {}


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"ssl.unknown": "x"}, r"Unknown option: kafka\.ssl\.unknown"),
        ({"ssl.truststore.location": "/no/file"}, r"kafka\.ssl\.truststore\.location=/no/file; cannot read"),
        ({"ssl.truststore.location": "a", "ssl.truststore.type": "JKS"}, "keytool -importkeystore"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        tls_context(options)
