"""Connections to brokers: framing, versions, requests in flight, errors and retries."""
