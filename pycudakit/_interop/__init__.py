"""Arrays of other libraries: how they are described, read and written."""
