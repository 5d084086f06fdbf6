"""The command line: one module per command, which parses options, calls a use case and prints."""
