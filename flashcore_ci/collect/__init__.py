"""What the GPU shows: one module for each kind of evidence and one table of them (``collect.py``). No thresholds here."""
