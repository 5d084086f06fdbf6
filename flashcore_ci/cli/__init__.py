"""Click commands: parse, call, write."""
