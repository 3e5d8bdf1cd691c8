"""From a source to what a library can load."""
