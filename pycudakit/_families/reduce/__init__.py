"""Reductions: sums, means, variances, minima, maxima and other functions along axes."""
