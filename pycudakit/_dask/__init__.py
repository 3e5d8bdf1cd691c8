"""Functions of Dask arrays, which lie in blocks, on one machine or many: each is a function of blocks."""
