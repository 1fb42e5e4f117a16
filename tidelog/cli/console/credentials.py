"""What users enter to sign in: a name and a password, or an access token of OAUTHBEARER.

The broker verifies both. The claims of a token are read here only for the name of its user and its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol

from tidelog.base.dataclass import dataclass
from tidelog.security.jaas import jaas_text
from tidelog.security.oauthbearer.token import TokenError, decode_token, required_time_ms, text_claim

_STATIC: Final = Path(__file__).parent / "static"


class CredentialsError(Exception):
    """Credentials that the console does not send to the broker; `status` is that of the response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The name of a user, and the options with which clients authenticate as this user.

    `expires_ms`: the end of the credentials in milliseconds since 1970; None if they have no end.
    """

    user: str
    client_options: Mapping[str, Any] = field(repr=False)
    expires_ms: int | None = None


class SignInForm(Protocol):
    """A form of the page to sign in."""

    page: Path
    refusal: str
    """The text for credentials that the broker does not accept."""

    def read(self, document: Mapping[str, Any]) -> Credentials:
        """Return what a user has entered. Errors: CredentialsError."""


class PasswordForm:
    """User and password of PLAIN or SCRAM."""

    page = _STATIC / "sign_in.html"
    refusal = "The user name or the password is wrong."

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism

    def read(self, document: Mapping[str, Any]) -> Credentials:
        """Return what a user has entered. Errors: CredentialsError."""
        user, password = document.get("user"), document.get("password")
        if not (isinstance(user, str) and isinstance(password, str)):
            raise CredentialsError(400, "Allowed is an object with the texts user and password.")
        if not user or not password:
            raise CredentialsError(401, self.refusal)
        jaas_config = jaas_text(self._mechanism, {"username": user, "password": password})
        return Credentials(user=user, client_options={"sasl_jaas_config": jaas_config})


class TokenForm:
    """An access token, which the user has obtained from the identity provider."""

    page = _STATIC / "sign_in_token.html"
    refusal = "The broker does not accept this token."

    def __init__(self, principal_claim: str) -> None:
        self._principal_claim = principal_claim

    def read(self, document: Mapping[str, Any]) -> Credentials:
        """Return what a user has entered. Errors: CredentialsError."""
        token = document.get("token")
        if not isinstance(token, str):
            raise CredentialsError(400, "Allowed is an object with the text token.")
        token = token.strip()
        try:
            claims = decode_token(token).claims
            user, expires_ms = text_claim(claims, self._principal_claim), required_time_ms(claims, "exp")
        except TokenError as error:
            raise CredentialsError(401, f"This is no access token: {error}.") from None
        return Credentials(
            user=user, client_options={"oauth_token_provider": lambda: token}, expires_ms=expires_ms
        )
