"""Apache Kafka compared with Tidelog on this machine: `python -m benchmarks.kafka` (`make bench-kafka`)."""
