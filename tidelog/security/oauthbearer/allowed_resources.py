"""The URLs and files that the configuration of OAUTHBEARER may name.

In Apache Kafka these are system properties of Java, here they are environment variables. Changes of
configurations, for example by a request or by an option of a job, cannot make this process read a file or
send a request to another server (CVE-2025-27817). Without the variables nothing is allowed, as in Kafka.

Source: ConfigurationUtils and BrokerSecurityConfigs of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass

ALLOWED_URLS_VARIABLE: Final = "TIDELOG_SASL_OAUTHBEARER_ALLOWED_URLS"
ALLOWED_FILES_VARIABLE: Final = "TIDELOG_SASL_OAUTHBEARER_ALLOWED_FILES"
_SCHEMES: Final = ("http", "https", "file")


class Endpoint(NamedTuple):
    """A URL that is allowed; `path` is the file if the scheme is file, else None."""

    url: str
    path: str | None


@dataclass(frozen=True, slots=True)
class AllowedResources:
    """URLs and paths of files, compared exactly."""

    urls: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    @classmethod
    def of_environment(cls, variables: Mapping[str, str]) -> AllowedResources:
        """Return what the variables allow: comma-separated lists."""
        return cls(
            urls=_split(variables.get(ALLOWED_URLS_VARIABLE, "")),
            files=_split(variables.get(ALLOWED_FILES_VARIABLE, "")),
        )

    def endpoint(self, key: str, url: str | None) -> Endpoint:
        """Return the endpoint that `key` names. Raise ConfigError if it is missing or not allowed."""
        if url is None or not url.strip():
            raise ConfigError(key, None, "the URL is required")
        url = url.strip()
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in _SCHEMES and (parts.scheme == "file" or bool(parts.hostname))
            is_valid = is_valid and parts.port != 0 and parts.username is None and url.isprintable()
        except ValueError:
            is_valid = False
        if not is_valid or " " in url or not url.isascii():
            # Not shown: it may contain a password.
            raise ConfigError(
                key, "[hidden]", "allowed are ASCII URLs with http, https or file, without a password"
            )
        if url not in self.urls:
            raise ConfigError(key, url, f"the environment variable {ALLOWED_URLS_VARIABLE} must contain it")
        return Endpoint(url, unquote(parts.path) if parts.scheme == "file" else None)

    def file(self, key: str, path: str) -> str:
        """Return the absolute path that `key` names. Raise ConfigError if it is not allowed."""
        absolute = str(Path(path.strip()).absolute())
        if absolute not in self.files:
            allowed = f"the environment variable {ALLOWED_FILES_VARIABLE} must contain {absolute}"
            raise ConfigError(key, path, allowed)
        return absolute


def _split(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
