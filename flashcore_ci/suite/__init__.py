"""The only reader of TOML and environment. Every problem is reported at once."""
