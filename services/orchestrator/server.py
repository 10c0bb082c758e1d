"""OptimizerService over the store and the runner: translates and delegates."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from optiml.rpc.channel import open_channel
from optiml.rpc.server import Service
from optiml.settings import Settings, settings
from optiml.v1 import optimizer_service_pb2 as messages
from optiml.v1 import optimizer_service_pb2_grpc, search_pb2
from services.orchestrator.clients import GeneratorClient, JudgeClient, ProfilerClient
from services.orchestrator.notices import Notices
from services.orchestrator.ports import Ports
from services.orchestrator.requests import body_digest, new_optimization, page_size, read_page_token, write_page_token
from services.orchestrator.runner import Runner
from services.orchestrator.settings import SearchTuning
from services.orchestrator.store import Store
from services.orchestrator.tree import Tree, replay
from services.orchestrator.view import brief, empty_tree, view

__all__ = ["NAME", "OptimizerServicer", "service"]

NAME = "optiml.v1.OptimizerService"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_POLL_SECONDS = 0.2  # how soon events of other replicas are seen
_CANCEL_SECONDS = 10.0  # another replica stops within one; the answer waits no longer
_FOLDED_TREES = 32


class OptimizerServicer(optimizer_service_pb2_grpc.OptimizerServiceServicer):
    """Answers from the store; only `runner` works."""

    def __init__(self, store: Store, runner: Runner, notices: Notices, tuning: SearchTuning) -> None:
        self._store, self._runner, self._notices, self._tuning = store, runner, notices, tuning
        self._folded: OrderedDict[str, Tree] = OrderedDict()

    async def CreateOptimization(
        self, request: messages.CreateOptimizationRequest, _context: Context
    ) -> messages.CreateOptimizationResponse:
        """Store and start an optimization."""
        created = new_optimization(request, self._tuning)
        identity = await self._store.create(created, body_digest(request))
        self._runner.wake()
        return messages.CreateOptimizationResponse(optimization=await self._view(identity))

    async def GetOptimization(
        self, request: messages.GetOptimizationRequest, _context: Context
    ) -> messages.GetOptimizationResponse:
        """Return an optimization as it is now."""
        return messages.GetOptimizationResponse(optimization=await self._view(request.id))

    async def ListOptimizations(
        self, request: messages.ListOptimizationsRequest, _context: Context
    ) -> messages.ListOptimizationsResponse:
        """List optimizations, newest first."""
        size = page_size(request.page_size)
        page = await self._store.page(size + 1, read_page_token(request.page_token))
        response = messages.ListOptimizationsResponse()
        for created in page[:size]:
            response.optimizations.append(brief(view(created, await self._fold(created))))
        if len(page) > size:
            response.next_page_token = write_page_token(page[size - 1])
        return response

    async def WatchOptimization(
        self, request: messages.WatchOptimizationRequest, _context: Context
    ) -> AsyncIterator[messages.WatchOptimizationResponse]:
        """Stream stored events, then live ones, until the optimization ends."""
        sequence = request.after_sequence
        with self._notices.watching(request.id) as mailbox:
            while True:
                position = await self._store.position(request.id)
                if position.last_sequence > sequence:
                    for event in await self._store.events(request.id, sequence):
                        yield messages.WatchOptimizationResponse(event=event)
                        sequence = event.sequence
                if position.ended and position.last_sequence <= sequence:
                    return
                for progress in await mailbox.wait(_POLL_SECONDS):
                    yield messages.WatchOptimizationResponse(event=progress)

    async def CancelOptimization(
        self, request: messages.CancelOptimizationRequest, _context: Context
    ) -> messages.CancelOptimizationResponse:
        """Stop an optimization and keep what was found."""
        if not (await self._store.position(request.id)).ended:
            await self._runner.cancel(request.id)
            await self._wait_for_end(request.id)
        return messages.CancelOptimizationResponse(optimization=await self._view(request.id))

    async def GetEvaluation(
        self, request: messages.GetEvaluationRequest, _context: Context
    ) -> messages.GetEvaluationResponse:
        """Return a stored evaluation."""
        return messages.GetEvaluationResponse(evaluation=await self._store.evaluation(request.id))

    async def _wait_for_end(self, identity: str) -> None:
        deadline = asyncio.get_running_loop().time() + _CANCEL_SECONDS
        with self._notices.watching(identity) as mailbox:
            while not (await self._store.position(identity)).ended:
                if asyncio.get_running_loop().time() > deadline:
                    return
                await mailbox.wait(_POLL_SECONDS)

    async def _view(self, identity: str) -> search_pb2.Optimization:
        created = await self._store.optimization(identity)
        return view(created, await self._fold(created))

    async def _fold(self, created: search_pb2.Optimization) -> Tree:
        """Fold the log; what was folded for an earlier call is only continued."""
        tree = self._folded.pop(created.id, None) or empty_tree(created, self._tuning)
        events = await self._store.events(created.id, tree.sequence)
        self._folded[created.id] = replay(tree, events)
        while len(self._folded) > _FOLDED_TREES:
            self._folded.popitem(last=False)
        return tree


def service(own: Settings | None = None, *, drive: bool = True) -> Service:
    """Return the service over the store and the addresses in the settings, ready to be added to a server.

    Args:
        own: settings; None reads the process's own.
        drive: False only answers from the store, and starts no search.
    """
    chosen = own or settings()
    tuning = SearchTuning()
    store = Store(chosen.store_url or _embedded_url(chosen))
    addresses = (chosen.generator_address, chosen.judge_address, chosen.profiler_address)
    channels: list[grpc.aio.Channel] = []
    notices = Notices()
    runners: list[Runner] = []

    def add(server: grpc.aio.Server) -> None:
        channels.extend(open_channel(address) for address in addresses)
        ports = Ports(GeneratorClient(channels[0]), JudgeClient(channels[1]), ProfilerClient(channels[2]), store)
        runner = Runner(store, ports, notices, tuning)
        runners.append(runner)
        servicer = OptimizerServicer(store, runner, notices, tuning)
        optimizer_service_pb2_grpc.add_OptimizerServiceServicer_to_server(servicer, server)
        if drive:
            runner.start()

    async def stop() -> None:
        for runner in runners:
            await runner.stop()
        for channel in channels:
            await channel.close()
        store.close()

    return Service(NAME, add, stop)


def _embedded_url(chosen: Settings) -> str:
    chosen.state_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{chosen.state_folder / 'optiml.db'}"
