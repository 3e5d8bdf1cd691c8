"""Arguments, launches, and where they run."""
