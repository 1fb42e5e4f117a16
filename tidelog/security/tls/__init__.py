"""TLS: Kafka's `ssl.*` keys, key stores, trust stores, SSL contexts, principals of certificates."""
