"""Sorting, searching, and functions that are built on a sort: unique values and set operations."""
