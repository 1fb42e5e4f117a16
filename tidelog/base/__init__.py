"""Mechanisms that every package may use and that know nothing of Kafka's protocol."""
