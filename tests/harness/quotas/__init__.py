"""Measures the rates that librdkafka achieves under quotas of bytes."""
