"""The version of pycudakit; CMakeLists.txt and pyproject.toml read it from this file."""

__version__ = "0.1.0"
