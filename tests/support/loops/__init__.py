"""Event loops in tests: both kinds of loop, yields to other tasks, and unhandled errors."""
