"""Registration of brokers and controllers with the active controller, and broker heartbeats."""
