"""What the protocol has for share groups besides messages (KIP-932)."""
