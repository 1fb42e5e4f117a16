"""Record batches for tests: what Kafka wrote, forged batches, and damaged bytes."""
