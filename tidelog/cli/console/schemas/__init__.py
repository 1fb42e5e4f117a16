"""Decodes records whose schemas are in a Schema Registry."""
