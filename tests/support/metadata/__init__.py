"""Metadata images, metadata stores and their quorum of one voter."""
