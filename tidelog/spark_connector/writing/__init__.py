"""Rows of Spark written to topics: columns as records, and ways of delivery."""
