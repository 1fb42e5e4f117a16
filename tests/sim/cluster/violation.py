"""The error of a run in which a guarantee was broken."""


class Violation(AssertionError):
    """A guarantee of Kafka was broken."""
