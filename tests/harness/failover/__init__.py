"""Failover of a real cluster under load: nodes killed, paused, isolated, restarted; no record may be lost."""
