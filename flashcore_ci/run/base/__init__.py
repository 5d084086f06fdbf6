"""The base of a comparison: check it out, describe it, build it, leave out what cannot differ."""
