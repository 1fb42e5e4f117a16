"""Failover of a real cluster under load: nodes killed, paused, cut off, restarted; nothing may be lost."""
