"""The self-test: break kernels and evidence on purpose, and check that the right gate fails."""
