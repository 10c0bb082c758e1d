"""Runs CUDA kernels on the CPU: PTX to C++, one fibre a CUDA thread, with a checker and simulated counters."""
