"""The scripted machine."""

from scripted_machine import world  # noqa: F401 - a fixture
