"""Pure: report record to text, one file a format. Nobody here opens a file or decides."""
