"""`tidelog group`: consumer groups and their offsets."""
