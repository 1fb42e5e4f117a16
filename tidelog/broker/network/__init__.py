"""Reads the frames of requests from sockets, and writes responses to them; does not decode their contents."""
