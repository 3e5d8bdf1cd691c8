"""Histograms, bin counts and binning."""
