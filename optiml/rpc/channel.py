"""Channels to OptiML's services: round robin over all addresses, retries of UNAVAILABLE, sane limits.

Retries are transparent and safe: every RPC of ours is idempotent or carries a request id (gRFC A6).
"""

import json

import grpc

__all__ = ["MAX_MESSAGE_BYTES", "open_channel"]

MAX_MESSAGE_BYTES = 16 << 20  # an event with proposals holds several sources of at most 1 MiB

_SERVICE_CONFIG = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
    }
)


def open_channel(address: str) -> grpc.aio.Channel:
    """Return a channel to `address`: `host:port`, `dns:///name:port` or `unix:/path`. Connects when first used."""
    options: list[tuple[str, str | int]] = [
        ("grpc.service_config", _SERVICE_CONFIG),
        ("grpc.enable_retries", 1),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", 330_000),  # servers allow one ping in five minutes
        ("grpc.use_local_subchannel_pool", 1),  # several servers of one process must not share connections
    ]
    return grpc.aio.insecure_channel(address, options=options)
