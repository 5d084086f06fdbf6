"""Write subjects and suites: for a kernel and its reference, and for problems of other projects."""
