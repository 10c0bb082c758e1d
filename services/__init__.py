"""The four gRPC services. They never import each other; they meet in `optiml` and over gRPC."""
