"""How this node connects to the listeners of other nodes: the TLS contexts and the authentication by SASL."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.clients.config.client_config import ContextSource
from tidelog.clients.transport.connection import Authenticator


class PeerSecurity(NamedTuple):
    """The security of connections to one listener of other nodes.

    `ssl` returns the TLS context; None without TLS. `authenticator`: None without SASL.
    """

    ssl: ContextSource | None
    authenticator: Authenticator | None
