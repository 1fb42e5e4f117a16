"""The connections of driver and tasks to brokers: an event loop in a thread, TLS contexts."""
