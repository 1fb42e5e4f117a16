"""Sharing one event loop: long work is divided into slices, so that other requests are served in between."""
