"""Verifies with the transaction coordinator that a partition is part of a transaction (KIP-890)."""
