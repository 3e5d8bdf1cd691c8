"""Scheduling and execution of the traced graph: fused kernels, reductions, row tiles, shards and costs."""
