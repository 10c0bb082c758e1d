"""ProfilerService: compiles, checks, times and counts candidates."""
