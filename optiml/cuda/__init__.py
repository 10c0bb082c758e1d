"""Reading CUDA source: parsing with libclang."""
