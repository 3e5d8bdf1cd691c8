"""Cumulative sums, products, maxima and minima, and scans."""
