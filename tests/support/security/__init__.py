"""Certificates and TLS clients of tests."""
