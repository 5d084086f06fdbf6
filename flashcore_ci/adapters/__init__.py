"""The outside world: each module a pure argv(), a pure parse(), and one door."""
