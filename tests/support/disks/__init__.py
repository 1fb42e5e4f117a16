"""Disks in memory that lose unsynced writes, run out of descriptors, and crash at any operation."""
