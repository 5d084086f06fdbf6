"""A separate program, ``python -m flashcore_ci.worker JOB RESULT``: the only importer of torch and of subjects.

It runs under whichever interpreter has torch and needs nothing else but this package's source and the standard library.
Its output is noise; its result is a file, written atomically and again after every workload, so that a crash loses only
the workload in flight.
"""
