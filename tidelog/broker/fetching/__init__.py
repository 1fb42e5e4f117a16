"""Fetch requests: sessions, reads of local logs, reads of remote storage, and requests that wait."""
