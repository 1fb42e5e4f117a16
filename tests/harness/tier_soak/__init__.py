"""A tiered cluster under load whose object store misbehaves and whose nodes die; every byte is read again."""
