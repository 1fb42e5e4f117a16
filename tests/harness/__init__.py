"""Programs that put a running broker under stress and judge what became of it."""
