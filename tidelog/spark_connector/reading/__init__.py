"""Shells: request offsets from brokers on the driver, and read ranges from them on executors."""
