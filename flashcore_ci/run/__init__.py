"""The use cases: what each command does. No module here knows the command line."""
