"""Run folder, codec, bundle."""
