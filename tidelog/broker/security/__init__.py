"""Authentication, authorization and quotas of clients."""
