"""Measure in a separate program: ``python -m flashcore_ci.worker JOB RESULT``.

Only this program imports torch and subjects. It needs an interpreter with torch, this package and the standard library.
Its result is a file. It is replaced after every workload, so a crash loses only the workload in flight.
"""
