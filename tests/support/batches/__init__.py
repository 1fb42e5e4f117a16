"""Record batches for tests: batches of Kafka, batches with wrong contents, and damaged bytes."""
