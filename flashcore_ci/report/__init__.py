"""Pure: report record to text, one file a format."""
