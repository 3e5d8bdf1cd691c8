"""Sorting, searching and what needs it."""
