"""Collect evidence, with one module per kind and one table of them in ``collect.py``. There are no thresholds here."""
