"""optimlctl, the command-line client."""
