"""A cluster of several brokers on this machine: one process for each, all data in one folder."""
