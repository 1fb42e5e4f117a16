"""Programs that put a running broker under stress and check the result."""
