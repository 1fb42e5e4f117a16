"""The cluster's metadata: images, deltas and the controller's commands. No I/O, clocks or random sources."""
