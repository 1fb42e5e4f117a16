"""Writes docs/reference from the code; `python -m tests.harness.reference`.

A test compares the files with the code, so that they are never out of date.
"""
