"""GeneratorService: proposes edits of kernels."""
