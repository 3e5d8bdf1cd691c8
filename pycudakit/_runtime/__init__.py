"""One call: what is asked for, where it runs, what it is given, and what is told of it."""
