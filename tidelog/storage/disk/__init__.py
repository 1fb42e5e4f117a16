"""The port to the file system, its errors, and files that a crash cannot damage."""
