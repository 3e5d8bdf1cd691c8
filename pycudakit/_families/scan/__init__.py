"""Scans: cumulative sums, products, maxima and minima."""
