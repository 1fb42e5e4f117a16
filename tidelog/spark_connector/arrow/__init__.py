"""Decodes record batches into Arrow record batches without a Python object per record. Pure: no I/O."""
