"""Software of others that tests and benchmarks compare Tidelog with: Apache Kafka, Spark's Kafka source.

Benchmarks import no other part of `tests`. This package imports neither other tests nor benchmarks.
"""
