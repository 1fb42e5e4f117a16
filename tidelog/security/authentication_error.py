"""The error of an authentication that failed."""

from __future__ import annotations

from typing import Final

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
"""The text of Kafka for a client that asks to act under the name of another user (CVE-2017-12610)."""


class AuthenticationError(Exception):
    """An authentication failed; the text is the reason, without secrets, for the log.

    `client_text` is the part that the client may know. None stands for the general text of the mechanism,
    which is the same for an unknown user and for a wrong password.
    """

    def __init__(self, text: str, *, client_text: str | None = None) -> None:
        super().__init__(text)
        self.client_text = client_text
