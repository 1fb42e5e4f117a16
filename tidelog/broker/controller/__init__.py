"""What a controller does besides leading the metadata log: its listener's APIs, and its work over time."""
