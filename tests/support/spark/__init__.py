"""A local Spark for tests: topics, rows and streaming queries."""
