"""An S3 server for tests, and a proxy that injects faults into its responses."""
