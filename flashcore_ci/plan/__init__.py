"""Pure: suite and descriptions to the ordered list of checks."""
