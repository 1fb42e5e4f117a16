"""Which certificates may replace that of a running listener."""

from __future__ import annotations

import pytest

from tidelog.security.certificate_authority import Authority
from tidelog.security.tls.certificate_changes import certificate_change_problem

AUTHORITY = Authority.create()
FORMER = AUTHORITY.issue("broker", ("a.example", "127.0.0.1")).certificate


@pytest.mark.parametrize(
    "subject, hosts, allows, expected_problem",
    [
        ("broker", ("a.example", "127.0.0.1"), "", None),
        ("broker", ("127.0.0.1", "b.example", "a.example"), "", None),
        ("BROKER", ("a.example", "127.0.0.1"), "", None),
        ("other", ("a.example", "127.0.0.1"), "", "the distinguished name CN=broker, not CN=other"),
        ("other", ("a.example", "127.0.0.1"), "dn", None),
        ("broker", ("a.example",), "", "missing: IPAddress 127.0.0.1"),
        ("broker", (), "", "missing: DNSName a.example, IPAddress 127.0.0.1"),
        ("broker", (), "san", None),
    ],
)
def test_a_new_certificate_has_the_names_of_the_former_one(
    subject: str, hosts: tuple[str, ...], allows: str, expected_problem: str | None
) -> None:
    new = AUTHORITY.issue(subject, hosts).certificate
    problem = certificate_change_problem(FORMER, new, allows_dn=allows == "dn", allows_san=allows == "san")
    assert (problem is None) == (expected_problem is None)
    assert expected_problem is None or (problem is not None and problem.endswith(expected_problem))
