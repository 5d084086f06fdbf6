"""The use cases: what each command does."""
