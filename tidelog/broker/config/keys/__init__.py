"""The keys of server.properties, one class per theme; `broker.config.BrokerConfig` inherits them all."""
