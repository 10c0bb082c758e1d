"""optimlctl, the command-line client: thin over gRPC, to a remote orchestrator or to one in its own process."""
