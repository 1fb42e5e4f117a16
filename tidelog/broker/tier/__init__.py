"""Tiered storage on a node: what is made of its settings, and who of the node has to do with it.

Imported only where remote.log.storage.system.enable is true.
"""
