"""The outside world: per tool a pure argv(), a pure parse(), and one entry point."""
