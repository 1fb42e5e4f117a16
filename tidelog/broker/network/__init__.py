"""Reads requests from sockets and writes responses to them; knows frames, but not their contents."""
