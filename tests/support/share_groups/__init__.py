"""Share partitions for tests: timers, and stores of their states."""
