"""Migrations of the store, run at start."""
