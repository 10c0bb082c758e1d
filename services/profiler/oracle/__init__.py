"""How strong is a problem's own check? Outputs that need no work must fail it, and so must broken kernels."""
