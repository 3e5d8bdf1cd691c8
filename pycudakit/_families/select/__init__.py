"""Order statistics by selection: medians, quantiles and percentiles."""
