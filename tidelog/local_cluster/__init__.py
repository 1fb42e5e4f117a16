"""A cluster of several brokers on this machine, each a process of its own, all data under one folder."""
