"""Serve the groups of the new protocols: requests wait for the log, and other coordinators are reached."""
