"""Sockets to requests and answers to sockets; knows frames, not what is in them."""
