"""OptimizerService: searches for the fastest correct kernel and keeps every fact in a store."""
