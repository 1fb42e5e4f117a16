"""Writes rows of Spark to topics: the conversion of columns to records, and the delivery."""
