"""The rules for a new certificate of a running listener.

As in Kafka, the new certificate must have the subject and all subject alternative names of the former one, so
that clients and other brokers continue to accept the node, unless ssl.allow.dn.changes or
ssl.allow.san.changes is set.

Source: SslFactory.CertificateEntries and KIP-978 of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.security.tls.distinguished_name import distinguished_name

if TYPE_CHECKING:
    from cryptography import x509


def certificate_change_problem(
    former: x509.Certificate, new: x509.Certificate, *, allows_dn: bool, allows_san: bool
) -> str | None:
    """Return why `new` must not replace `former`; None if it is allowed."""
    if not allows_dn:
        old_name, new_name = (distinguished_name(each.subject.public_bytes()) for each in (former, new))
        if former.subject != new.subject and old_name.lower() != new_name.lower():
            return f"allowed is a certificate with the distinguished name {old_name}, not {new_name}"
    if not allows_san:
        missing = _alternative_names(former) - _alternative_names(new)
        if missing:
            listed = ", ".join(sorted(missing))
            return f"allowed is a certificate with all former subject alternative names; missing: {listed}"
    return None


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    # Imported here: a node without TLS starts without the library for certificates.
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {f"{type(name).__name__} {name.value}" for name in extension.value}
