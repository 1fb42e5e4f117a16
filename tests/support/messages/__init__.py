"""Messages of the protocol for tests: random and recorded messages, and other codecs to compare with."""
