"""The only reader of TOML and environment: files to typed records, every problem reported at once."""
