"""One call of a fused function: what its body asks of arrays."""
