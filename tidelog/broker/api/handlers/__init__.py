"""The handlers: one file per API, from a decoded request to its response."""
