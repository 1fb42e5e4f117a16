"""The options of producers, consumers and admin clients."""
