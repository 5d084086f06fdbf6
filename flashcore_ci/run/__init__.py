"""The use cases: what each command does, without a command line."""
