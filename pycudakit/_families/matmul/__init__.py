"""Matrix products and the functions that are built on them."""
