"""Shells: offsets asked of brokers on the driver, ranges read from them on executors."""
