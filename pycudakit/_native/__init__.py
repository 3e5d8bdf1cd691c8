"""The door to C: the ABI as one table, the libraries, what they keep and what there is."""
