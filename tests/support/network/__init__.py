"""Sockets for tests: a server with a client that sends frames, raw connections, and scripted brokers."""
