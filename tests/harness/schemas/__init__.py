"""Compares our message declarations with a directory of Kafka's JSON message definitions."""
