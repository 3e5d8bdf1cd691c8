"""pycudakit functions of Dask arrays: each is computed block by block, on one machine or many."""
