"""Turn the report record into text, one module per format. Nothing here opens a file or decides."""
