"""Brokers of Apache Kafka and of Tidelog as processes of this machine."""
