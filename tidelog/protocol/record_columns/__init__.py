"""Reads the records of many batches at once with numpy, one column per field. Pure: no I/O.

Brokers do not import this package, because numpy takes memory: only the worker processes of the log cleaner
and the Spark connector do.
"""
