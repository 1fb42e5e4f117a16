"""What a client knows about brokers and topics, and when it asks again."""
