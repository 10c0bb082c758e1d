"""Source-to-source rewriting of CUDA kernels: what a kernel's text says, by structure and never by name."""
