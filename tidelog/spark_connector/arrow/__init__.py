"""Record batches turned into Arrow record batches, without a Python object per record. Pure."""
