"""Authentication of connections by SASL."""
