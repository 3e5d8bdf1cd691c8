"""pycudakit's own functions, each named as csrc/<family>.cu; expressions are elementwise's and reduce's."""
