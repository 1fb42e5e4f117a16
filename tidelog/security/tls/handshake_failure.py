"""Contexts of servers whose failed handshakes have the alert with the reason for the client.

An event loop closes the connection of a failed handshake without sending what OpenSSL has written last: the
alert, for example "certificate required". A client without it connects again and again until its deadline,
because it cannot distinguish a wrong certificate from a broker that has stopped.

Source: RFC 8446, section 6.2; SslTransportLayer of Apache Kafka 4.3 (handshakeFailure).
"""

from __future__ import annotations

import ssl


class HandshakeFailure(ssl.SSLError):
    """A failed handshake; `alert` has the bytes that remain to be sent to the peer."""

    alert: bytes = b""


class AlertingObject(ssl.SSLObject):
    """The TLS state of one connection; raises HandshakeFailure if its handshake fails."""

    outgoing: ssl.MemoryBIO
    """The bytes for the peer."""

    def do_handshake(self) -> None:
        """Continue the handshake; raise HandshakeFailure if it fails, SSLWantReadError if data is needed."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            failure = HandshakeFailure(*error.args)
            failure.__dict__.update(error.__dict__)
            failure.alert = self.outgoing.read()
            raise failure from error


class AlertingContext(ssl.SSLContext):
    """A context of a server with AlertingObject for its connections."""

    sslobject_class = AlertingObject

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return the TLS state of a connection over two buffers."""
        wrapped = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(wrapped, AlertingObject)
        wrapped.outgoing = outgoing
        return wrapped
