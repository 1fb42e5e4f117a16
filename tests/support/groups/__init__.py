"""A group coordinator on virtual time, and its log in memory."""
