"""Software of others that tests and benchmarks compare Tidelog with: Apache Kafka, Spark's Kafka source.

Both tests and benchmarks import this package, which imports neither of them.
"""
