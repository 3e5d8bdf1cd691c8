"""The families of functions, each named like its csrc/<family>.cu.

Expressions are compiled to the entries of the elementwise and reduce families.
"""
