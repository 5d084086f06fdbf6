"""The same examples on every run, and no clock: a slow machine is not a failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("gate", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gate")
