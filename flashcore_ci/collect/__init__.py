"""One module a kind of evidence. No thresholds here."""
