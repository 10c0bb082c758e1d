"""Runs, times and counts kernels on an NVIDIA GPU. Only the worker process imports CuPy."""
