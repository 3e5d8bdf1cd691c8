"""PyCUDA's names: programs that were written for PyCUDA run as they are, on a GPU and without one.

``pycudakit pycuda train.py`` runs a program with this package in PyCUDA's place; `install` does so inside
of a program.
"""

from pycudakit.pycuda._finder import install

__all__ = ["VERSION", "VERSION_STATUS", "VERSION_TEXT", "install"]

VERSION = (2026, 1)
VERSION_STATUS = ""
VERSION_TEXT = ".".join(map(str, VERSION)) + VERSION_STATUS
