"""Tracing of a fused call: operators, ufuncs, NumPy functions, views and indexing on tracers."""
