"""Runs what is not trusted: children behind limits, and processes that answer frames."""
