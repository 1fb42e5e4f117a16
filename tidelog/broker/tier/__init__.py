"""Tiered storage of a node: its managers, their configuration, and their ports to the other parts.

Imported only if remote.log.storage.system.enable is true.
"""
