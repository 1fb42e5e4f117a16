"""The metadata of a client about brokers and topics, and when it is requested again."""
