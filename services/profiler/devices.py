"""The executors of this machine: opened when first wanted, one pipeline for each."""

import asyncio
import os

from optiml.errors import PreconditionError
from optiml.v1 import evaluation_pb2, profiler_service_pb2, verdict_pb2
from services.profiler.capabilities import capability, machine_capabilities, require_gpu_software
from services.profiler.cpu_executor import CpuExecutor
from services.profiler.cuda.executor import CudaExecutor
from services.profiler.evaluate import Pipeline
from services.profiler.reference import References
from services.profiler.source_rules import SourceRules
from services.profiler.toolchain import find_host_compiler, find_toolchain

__all__ = ["Devices"]

_CORES_OF_A_CHECKER = 4  # one of its workers builds, one runs; compilers want the rest


class Devices:
    """Gives the pipeline for a kind of device, and tells what there is."""

    def __init__(self) -> None:
        self._rules, self._references = SourceRules(), References()
        self._opening = asyncio.Lock()
        self._cpu: Pipeline | None = None
        self._cuda: Pipeline | PreconditionError | None = None

    async def stop(self) -> None:
        """End every worker."""
        for pipeline in (self._cpu, self._cuda):
            if isinstance(pipeline, Pipeline):
                await pipeline.stop()
        await self._rules.stop()
        await self._references.stop()

    async def pipeline(self, kind: verdict_pb2.DeviceKind.ValueType) -> Pipeline:
        """Return the pipeline for a kind of device; UNSPECIFIED takes the GPU if there is a usable one.

        Raises:
            PreconditionError: the device, or a compiler, is not here; the message has the cure.
        """
        async with self._opening:
            if kind == verdict_pb2.DEVICE_KIND_CPU:
                return self._open_cpu()
            cuda = await self._open_cuda()
            if isinstance(cuda, Pipeline):
                return cuda
            if kind == verdict_pb2.DEVICE_KIND_CUDA:
                raise PreconditionError(str(cuda))
            return self._open_cpu()

    def _open_cpu(self) -> Pipeline:
        if self._cpu is None:
            find_toolchain()
            find_host_compiler()
            self._cpu = Pipeline(CpuExecutor(), self._rules, self._references)
        return self._cpu

    async def _open_cuda(self) -> Pipeline | PreconditionError:
        if self._cuda is None:
            try:
                require_gpu_software()
                find_toolchain()
                executor = await CudaExecutor.open()
                self._cuda = Pipeline(executor, self._rules, self._references, self._checker())
            except PreconditionError as error:
                self._cuda = error
        return self._cuda

    def _checker(self) -> CpuExecutor | None:
        try:
            find_host_compiler()
        except PreconditionError:
            return None
        return CpuExecutor(at_once=max(1, len(os.sched_getaffinity(0)) // _CORES_OF_A_CHECKER))

    def _found_cpu(self) -> str:
        find_toolchain()
        find_host_compiler()
        model = self._open_cpu().executor.model
        return f"simulated counters, times estimated for {model.name} ({model.architecture})"

    async def capabilities(self) -> profiler_service_pb2.GetCapabilitiesResponse:
        """Return everything that a person may want to know about this profiler."""
        async with self._opening:
            cuda = await self._open_cuda()

            def found_gpu() -> str:
                if isinstance(cuda, PreconditionError):
                    raise cuda
                return f"{cuda.executor.device.name}, driver {cuda.executor.device.driver}"

            compiler, *rest = machine_capabilities()
            on_cpu = capability("cpu-executor", self._found_cpu)
            devices: list[evaluation_pb2.Device] = []
            if isinstance(cuda, Pipeline):
                devices.append(cuda.executor.device)
            if on_cpu.available:
                devices.append(self._open_cpu().executor.device)
        return profiler_service_pb2.GetCapabilitiesResponse(
            capabilities=[compiler, capability("gpu", found_gpu), *rest, on_cpu], devices=devices
        )
