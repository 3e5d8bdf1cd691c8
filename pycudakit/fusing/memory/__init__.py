"""Tracers, deferred nodes and buffers: the arrays of a fused function, and where their values are."""
