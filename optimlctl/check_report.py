"""What `check` found, as a person reads it: the holes first, each with its cure, then the numbers."""

from collections import Counter
from collections.abc import Iterator

from optiml.v1 import profiler_service_pb2, verdict_pb2
from optimlctl import wording

__all__ = ["holes", "report"]

_SURVIVED = profiler_service_pb2.MUTANT_FATE_SURVIVED
_EQUIVALENT = profiler_service_pb2.MUTANT_FATE_MAY_BE_EQUIVALENT
_KILLED = profiler_service_pb2.MUTANT_FATE_KILLED
_NOT_RUN = profiler_service_pb2.MUTANT_FATE_NOT_RUN


def holes(result: profiler_service_pb2.ProblemCheck) -> bool:
    """Return whether something passed that should not have."""
    return any(trivial.passes for trivial in result.trivial_outputs) or any(
        mutant.fate == _SURVIVED for mutant in result.mutants
    )


def report(result: profiler_service_pb2.ProblemCheck) -> Iterator[str]:
    """Yield the lines, without line breaks."""
    if result.verdict != verdict_pb2.VERDICT_OK:
        yield f"the kernel fails its own check: {wording.verdict(result.verdict)}: {result.reason}"
        yield from result.log.splitlines()
        return
    for trivial in result.trivial_outputs:
        if trivial.passes:
            yield f"✗ {trivial.output}: {trivial.what} passes every check; {trivial.reason}"
    for mutant in result.mutants:
        if mutant.fate == _SURVIVED:
            yield from _told(mutant, "✗ survived", mutant.suggestion or "no cure was found by trying; look at the line")
    for mutant in result.mutants:
        if mutant.fate == _EQUIVALENT:
            yield from _told(mutant, "? may be equivalent", "nothing that was tried tells it from the kernel")
    yield from _numbers(result)


def _told(mutant: profiler_service_pb2.Mutant, mark: str, cure: str) -> Iterator[str]:
    where = f"kernel.cu:{mutant.line}: " if mutant.line else "launch: "
    yield f"{mark}: {where}{mutant.kind}; {cure}"
    yield f"    - {mutant.before}"
    yield f"    + {mutant.after}"


def _numbers(result: profiler_service_pb2.ProblemCheck) -> Iterator[str]:
    fates = Counter(mutant.fate for mutant in result.mutants)
    passing = sum(trivial.passes for trivial in result.trivial_outputs)
    yield f"trivial outputs: {len(result.trivial_outputs) - passing} fail, {passing} pass"
    judged = fates[_KILLED] + fates[_SURVIVED]
    share = f" ({fates[_KILLED] / judged:.0%})" if judged else ""
    yield (
        f"broken kernels: {fates[_KILLED]} of {judged} caught{share}, {fates[_EQUIVALENT]} may be equivalent, "
        f"{fates[_NOT_RUN]} not run"
    )
    verdicts = Counter(wording.verdict(mutant.verdict) for mutant in result.mutants if mutant.fate == _KILLED)
    if verdicts:
        yield "caught as: " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common())
