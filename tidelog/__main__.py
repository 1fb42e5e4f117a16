"""`python -m tidelog`: the `tidelog` command, for environments whose scripts are not in PATH."""

from tidelog.cli.main import main

main()
