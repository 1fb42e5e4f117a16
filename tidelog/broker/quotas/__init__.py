"""Client quotas: rates of clients, throttle times, controller mutations, connection creation rates."""
