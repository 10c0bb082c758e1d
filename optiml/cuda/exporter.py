"""The user's file with the best kernel in it, and the patch that leads there.

Device code that did not change stays where it is; new code goes where the first changed kernel was; launches are
written in the host's own terms. What cannot be mapped back is said at the head of the patch and beside the kernel.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from optiml.cuda.c_text import Unmapped, launch_statements, launch_text, scratch_statements
from optiml.cuda.host_program import HostLaunch
from optiml.cuda.imported import Imported
from optiml.cuda.parse import spelled_extent
from optiml.cuda.patched_pieces import Edit, replacement
from optiml.v1 import kernel_pb2

__all__ = ["Export", "export"]


@dataclass(frozen=True, slots=True)
class Export:
    """A finished file."""

    source: str
    """The whole program with the best kernel."""
    patch: str
    """Unified diff from the user's file, for `patch -p1`; empty if nothing changed."""
    notes: list[str] = field(default_factory=list)
    """What a person has to do by hand; also at the head of the patch."""


def export(imported: Imported, best: kernel_pb2.Kernel, path: str) -> Export:
    """Put the best kernel into the user's file.

    Args:
        imported: the file as it was read.
        best: the kernel to put in.
        path: the file's path in the patch, relative to where `patch -p1` runs.
    """
    sites = _sites(imported)
    changed = replacement(imported, best, [span for group in sites for _, span in group])
    edits, notes = list(changed.edits), list[str]()
    if _launches_differ(imported, best) or changed.renamed.keys() & _kernel_names(best):
        try:
            edits += _launch_edits(imported, best, sites, changed.renamed)
        except Unmapped as unmapped:
            changed = replacement(imported, best, [])  # the old launches stay, and so what they name
            comment, note = _by_hand(best, changed.renamed, str(unmapped))
            notes.append(note)
            edits = _with_comment(imported, changed.edits, comment)
    source = _applied(imported, edits)
    return Export(source, _patch(imported.text, source, path, notes), notes)


def _launches_differ(imported: Imported, best: kernel_pb2.Kernel) -> bool:
    baseline = imported.kernel
    return list(best.launches) != list(baseline.launches) or list(best.scratch) != list(baseline.scratch)


def _kernel_names(best: kernel_pb2.Kernel) -> set[str]:
    return {re.split(r"::|<", launch.kernel.partition("<")[0])[-1] for launch in best.launches}


Site = tuple[HostLaunch, tuple[int, int]]


def _sites(imported: Imported) -> list[list[Site]]:
    """Return for each launch of the plan the places in the file, each with its byte range."""
    repeats = imported.repeats or [[] for _ in imported.launches]
    return [
        [(site, spelled_extent(site.cursor)) for site in (launch, *same)]
        for launch, same in zip(imported.launches, repeats, strict=True)
    ]


def _launch_edits(
    imported: Imported, best: kernel_pb2.Kernel, sites: list[list[Site]], renamed: Mapping[str, str]
) -> list[Edit]:
    """Return the edits of all launches; surplus launches of the best kernel follow the last one."""
    if not sites:
        raise Unmapped("the file launches nothing")
    if len(imported.launches) != len(imported.kernel.launches):
        raise Unmapped("the problem file's launches are not those of the program")
    rounds = max(len(group) for group in sites)
    if any(len(group) != rounds for group in sites) and len(best.launches) != len(sites):
        raise Unmapped("the host repeats some launches and not others")
    known = {scratch.name for scratch in imported.kernel.scratch}
    scratch = [item for item in best.scratch if item.name not in known]
    edits: list[Edit] = []
    for index, group in enumerate(sites):
        last = index == len(sites) - 1
        plans = list(best.launches[index:] if last else best.launches[index : index + 1])
        for site, span in group:
            terms = _terms(imported, site)
            before = scratch_statements(scratch, terms) if index == 0 else []
            after = [f"cudaFree({item.name});" for item in scratch] if last else []
            buffers = _buffers(imported, site) | {item.name: item.name for item in scratch}
            if scratch and len(sites) > 1:
                raise Unmapped("new scratch buffers are shared by launches in different places")
            edits.append(_site_edit(imported, site, span, _Text(plans, before, after, buffers, terms, renamed)))
    return edits


@dataclass(frozen=True, slots=True)
class _Text:
    """What goes in place of one launch."""

    plans: list[kernel_pb2.Launch]
    before: list[str]
    after: list[str]
    buffers: Mapping[str, str]
    terms: Mapping[str, str]
    renamed: Mapping[str, str]


def _site_edit(imported: Imported, site: HostLaunch, span: tuple[int, int], text: _Text) -> Edit:
    data = imported.parsed.data
    start, end = span
    names = [_kernel_text(imported, site, plan, text.renamed) for plan in text.plans]
    semicolon = re.compile(rb"\s*;").match(data, end)
    head = data[:start].rstrip()
    statement = semicolon is not None and (not head or head[-1:] in b";{}):" or head.endswith((b"else", b"do")))
    if not statement:
        if len(text.plans) != 1 or text.before or text.plans[0].cooperative or "<<<" not in data[start:end].decode():
            raise Unmapped(f"line {site.line}: the launch is no statement of its own")
        return (start, end, launch_text(text.plans[0], names[0], text.buffers, text.terms, site.stream))
    statements = list(text.before)
    for plan, name in zip(text.plans, names, strict=True):
        statements += launch_statements(plan, name, text.buffers, text.terms, site.stream)
    statements += text.after
    assert semicolon is not None
    if len(statements) == 1:
        return (start, semicolon.end(), statements[0])
    line_start = data.rfind(b"\n", 0, start) + 1
    indent = re.match(r"[ \t]*", data[line_start:start].decode(errors="replace")).group()  # type: ignore[union-attr]
    inner = "\n".join(f"{indent}  {line}" for line in statements)
    return (start, semicolon.end(), f"{{\n{inner}\n{indent}}}" if statements else "{}")


def _kernel_text(imported: Imported, site: HostLaunch, plan: kernel_pb2.Launch, renamed: Mapping[str, str]) -> str:
    """Return how the host names the kernel: as it did, if it still is the same."""
    index = next((i for i, host in enumerate(imported.launches) if host.kernel == site.kernel), 0)
    same = index < len(imported.kernel.launches) and imported.kernel.launches[index].kernel == plan.kernel
    name = site.kernel if same else plan.kernel
    plain, bracket, rest = name.partition("<")
    scope, _, own = plain.rpartition("::")
    own = renamed.get(own, own)
    return (f"{scope}::{own}" if scope else own) + bracket + rest


def _buffers(imported: Imported, site: HostLaunch) -> dict[str, str]:
    """Return what the host passes for each buffer where it launches."""
    found: dict[str, str] = {}
    for host, plan in zip(imported.launches, imported.kernel.launches, strict=True):
        if host.function_name != site.function_name:
            continue
        for cursor, argument in zip(host.arguments, plan.arguments, strict=False):
            if argument.WhichOneof("value") == "buffer":
                found.setdefault(argument.buffer, imported.parsed.source(cursor))
    return found


def _terms(imported: Imported, site: HostLaunch) -> dict[str, str]:
    """Return what the host writes for parameters, scalars and whole expressions where it launches."""
    found: dict[str, str] = {}
    for host, plan in zip(imported.launches, imported.kernel.launches, strict=True):
        if host.function_name != site.function_name:
            continue
        for cursor, argument in zip(host.arguments, plan.arguments, strict=False):
            if argument.WhichOneof("value") == "scalar" and not _is_number(argument.scalar.expression):
                source = imported.parsed.source(cursor)
                plain = re.fullmatch(r"[\w.]+", source)
                found.setdefault(argument.scalar.expression, source if plain else f"({source})")
    for name, place in imported.places.items():
        if place in {"", site.function_name}:
            found.setdefault(name, imported.terms.get(name, name))
    return found


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-\d.e+]+", text))


def _by_hand(best: kernel_pb2.Kernel, renamed: Mapping[str, str], why: str) -> tuple[str, str]:
    """Return the comment that shows the new launches, and the note about it."""
    names = {name: name for launch in best.launches for name in _words(launch)}
    buffers = {a.buffer: a.buffer for launch in best.launches for a in launch.arguments if a.buffer}
    lines = ["Launch it so:"]
    lines += [f"  {line}" for line in scratch_statements(best.scratch, names | _scratch_words(best))]
    for launch in best.launches:
        plain, bracket, rest = launch.kernel.partition("<")
        kernel = renamed.get(plain, plain) + bracket + rest
        lines += [f"  {line}" for line in launch_statements(launch, kernel, buffers, names)]
    comment = "".join(f"// {line}\n" for line in lines)
    return comment, f"the launches could not be rewritten ({why}): see the comment above the kernel"


def _words(launch: kernel_pb2.Launch) -> set[str]:
    texts = [*launch.grid, *launch.block, launch.dynamic_shared_memory_bytes]
    texts += [a.scalar.expression for a in launch.arguments]
    return {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)} - {"ceil_div", "min", "max"}


def _scratch_words(best: kernel_pb2.Kernel) -> dict[str, str]:
    words = {word for item in best.scratch for word in re.findall(r"[A-Za-z_]\w*", item.elements)}
    return {word: word for word in words - {"ceil_div", "min", "max"}}


def _with_comment(imported: Imported, edits: list[Edit], comment: str) -> list[Edit]:
    """Put a comment above the new code, or above the first kernel if no code is new."""
    for index, (start, end, text) in enumerate(edits):
        if text and not text.startswith("#include"):
            return [*edits[:index], (start, end, comment + text), *edits[index + 1 :]]
    first = next(p for p in imported.cut if p.kind == "kernel")
    return [*edits, (first.body, first.body, comment)]


def _applied(imported: Imported, edits: list[Edit]) -> str:
    data = imported.parsed.data
    windows = data.count(b"\r\n") * 2 > data.count(b"\n")
    for start, end, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        lines = text.replace("\r\n", "\n")
        data = data[:start] + (lines.replace("\n", "\r\n") if windows else lines).encode() + data[end:]
    return data.decode(errors="replace")


def _patch(before: str, after: str, path: str, notes: list[str]) -> str:
    """Return a unified diff; lines end at line feeds only, as `patch` sees them."""
    if before == after:
        return ""
    old, new = (re.findall(r"[^\n]*\n|[^\n]+\Z", text) for text in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    body = "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
    return "".join(f"# {note}\n" for note in notes) + body
