"""optimlctl, the command-line client: thin over gRPC, to a remote orchestrator or to one in its own process."""

import os

# gRPC's C core writes its own notes to standard error unless told otherwise before it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
