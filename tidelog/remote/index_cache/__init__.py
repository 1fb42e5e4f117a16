"""Indexes of remote segments on the local disk: bounded, shared by all readers, kept across restarts."""
