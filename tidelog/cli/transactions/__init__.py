"""`tidelog transactions`: open and hanging transactions."""
