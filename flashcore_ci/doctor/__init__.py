"""What this machine lacks: pure checks of facts."""
