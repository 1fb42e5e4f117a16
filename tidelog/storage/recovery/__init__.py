"""Opening a partition directory after a clean or unclean shutdown."""
