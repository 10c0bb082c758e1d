"""gRPC plumbing: servers, channels, interceptors."""
