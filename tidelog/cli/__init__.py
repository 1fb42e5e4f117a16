"""The `tidelog` command: one module per group of commands, each loaded when it is called."""
