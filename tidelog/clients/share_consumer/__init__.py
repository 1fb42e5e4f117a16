"""The share consumer: reads records as a member of a share group (KIP-932)."""
