"""Programs that tests and benchmarks both start; imports neither of them."""
