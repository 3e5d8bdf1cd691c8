"""Order statistics: medians, quantiles."""
