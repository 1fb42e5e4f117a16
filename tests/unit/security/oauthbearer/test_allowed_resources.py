"""Which URLs and files the configuration of OAUTHBEARER may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.security.oauthbearer.allowed_resources import (
    ALLOWED_FILES_VARIABLE,
    ALLOWED_URLS_VARIABLE,
    AllowedResources,
)

KEY = "sasl.oauthbearer.token.endpoint.url"
URLS = "https://id.example/token, http://id.example:8080/a?b=c,file:///etc/a%20b"
ALLOWED = AllowedResources.of_environment({ALLOWED_URLS_VARIABLE: URLS, ALLOWED_FILES_VARIABLE: "/etc/key"})


def test_listed_urls_are_allowed() -> None:
    assert ALLOWED.endpoint(KEY, " https://id.example/token ").path is None
    assert ALLOWED.endpoint(KEY, "http://id.example:8080/a?b=c").url == "http://id.example:8080/a?b=c"
    assert ALLOWED.endpoint(KEY, "file:///etc/a%20b").path == "/etc/a b"


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example/token2",
        "https://id.example/",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
    ],
)
def test_cve_2025_27817_other_urls_are_rejected(url: str) -> None:
    for resources in (ALLOWED, AllowedResources.of_environment({})):
        with pytest.raises(ConfigError, match=ALLOWED_URLS_VARIABLE):
            resources.endpoint(KEY, url)


def test_cve_2025_27817_other_files_are_rejected(tmp_path: Path) -> None:
    assert ALLOWED.file("key", "/etc/key") == "/etc/key"
    for path in ("/etc/passwd", "/etc/../etc/key", "key", str(tmp_path)):
        with pytest.raises(ConfigError, match=ALLOWED_FILES_VARIABLE):
            ALLOWED.file("key", path)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://id.example/canary",
        "jar:file:/canary",
        "id.example/canary",
        "https:///canary",
        "https://user:canary@id.example/",
        "https://id.example:99999/canary",
        "https://id.example/\ncanary",
        "https://[canary",
        "https://id.example/canary-\u00e4",
    ],
)
def test_urls_that_cannot_be_used_are_rejected_without_showing_them(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        AllowedResources(urls=frozenset({url.strip()})).endpoint(KEY, url)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("url", [None, "", "  "])
def test_a_missing_url_is_reported(url: str | None) -> None:
    with pytest.raises(ConfigError, match="is required"):
        ALLOWED.endpoint(KEY, url)
