"""`python -m traintrace_reporting` is the `traintrace` command."""

from traintrace_reporting.cli import main

main()
