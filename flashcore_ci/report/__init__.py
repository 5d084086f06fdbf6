"""Turn the report record into text, one module per format. Nothing here does I/O."""
