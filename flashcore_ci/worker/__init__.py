"""Measure in a separate program, the only one that imports torch and subjects.

Its result file is replaced after every workload, so a crash loses only one.
"""
