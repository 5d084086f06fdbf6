"""The history of runs in a database: the store, its migrations and its queries."""
