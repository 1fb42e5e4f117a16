"""The cluster's metadata: image, deltas and the controller's commands. Pure: no I/O, clock or chance."""
