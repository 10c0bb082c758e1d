"""What OptiML's services and client share: messages, the kernel model, gRPC plumbing, settings, telemetry."""
