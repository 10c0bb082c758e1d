"""A process that drives optimizations until it is killed: `python -m tests.orchestrator.driving STORE_URL ADDRESS`."""

import asyncio
import sys

from optiml.rpc.channel import open_channel
from services.orchestrator.clients import GeneratorClient, JudgeClient, ProfilerClient
from services.orchestrator.notices import Notices
from services.orchestrator.ports import Ports
from services.orchestrator.runner import Runner
from services.orchestrator.settings import SearchTuning
from services.orchestrator.store import Store


async def drive(url: str, address: str) -> None:
    channel = open_channel(address)
    store = Store(url)
    ports = Ports(GeneratorClient(channel), JudgeClient(channel), ProfilerClient(channel), store)
    runner = Runner(store, ports, Notices(), SearchTuning(lease_seconds=1.0))
    runner.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(drive(*sys.argv[1:]))
