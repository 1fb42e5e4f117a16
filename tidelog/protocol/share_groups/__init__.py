"""The protocol of share groups (KIP-932), apart from messages: acknowledge types, a fast encoder."""
