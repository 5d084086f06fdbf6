"""Can this machine gate? Probe it, and say what is missing and how to fix it."""
