"""Divides long work on the event loop into slices, so that other requests are served in between."""
