"""Statistics of the verdicts, each with its source."""
