"""Certificates, TLS clients and authorizers of tests."""
