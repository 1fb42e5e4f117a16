"""The `tidelog` command: a module for each command, which is imported when the command is called.

The modules in this folder are what the commands share: connection, options, output, errors.
"""
