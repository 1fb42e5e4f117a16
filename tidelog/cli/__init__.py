"""The `tidelog` command: one module for each command, which is imported when the command is called."""
