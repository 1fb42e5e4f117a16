"""The port to the file system, its errors, and files that survive a crash whole."""
