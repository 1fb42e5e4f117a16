"""Encryption and authentication, as far as clients and brokers share them."""
