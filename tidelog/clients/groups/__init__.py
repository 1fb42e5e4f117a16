"""Membership in a consumer group, assignment and committed offsets."""
