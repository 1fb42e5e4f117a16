"""The keys of server.properties, one class per theme; `tidelog.broker.config.settings` combines them."""
