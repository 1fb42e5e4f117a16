"""Kafka's protocol: messages, record batches, control and metadata records, and their encoding. Pure."""
