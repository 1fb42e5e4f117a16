"""The SASL mechanism OAUTHBEARER (RFC 7628) of clients and servers: messages, tokens, keys, assertions."""
