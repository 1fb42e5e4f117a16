"""The host names by which a console may be called."""

from __future__ import annotations

import random
from typing import cast

import pytest

from tidelog.cli.console.access import TokenAccess, name_in_url
from tidelog.cli.console.session import ClusterSession
from tidelog.clients.admin.admin import Admin


@pytest.mark.parametrize(
    ("host", "header"),
    [
        ("fd00::7", "[fd00::7]:8090"),
        ("FD00:0:0::7", "[fd00::7]"),
        ("192.0.2.7", "192.0.2.7:8090"),
        ("Console.Example", "console.example:8090"),
    ],
)
def test_a_console_may_be_called_by_the_address_on_which_it_listens(host: str, header: str) -> None:
    session = ClusterSession(cast(Admin, None), "", {}, {})
    access = TokenAccess(session, frozenset({name_in_url(host)}), random.Random(1))
    assert access.is_expected_host(header)
    assert not access.is_expected_host("evil.example:8090")
