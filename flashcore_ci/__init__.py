"""flashcore-ci: may this change to a GPU kernel merge?

The way of the data, one room a step::

    gates/*.toml -> suite -> plan -> build -> collect -> run folder -> judge -> report

``docs/architecture.md`` says which room may import which; ``.importlinter`` enforces it.
"""

__version__ = "0.1.0"
