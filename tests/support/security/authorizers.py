"""The authorizer of handlers under test."""

from __future__ import annotations

from typing import Final

from tidelog.broker.security.authorization.authorizer import AllowEverything

ALLOW_EVERYTHING: Final = AllowEverything()
