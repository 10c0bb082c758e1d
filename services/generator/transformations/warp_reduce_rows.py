"""A thread that walks a whole row becomes a warp, or a block, that walks it together."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from optiml.v1.search_pb2 import DIRECTION_DECREASE, DIRECTION_INCREASE, Edit
from optiml.v1.verdict_pb2 import (
    BOTTLENECK_LATENCY,
    BOTTLENECK_LOW_PARALLELISM,
    BOTTLENECK_UNCOALESCED_ACCESS,
)
from services.generator.rewriting.accesses import (
    Access,
    accesses,
    expressions_of,
    require_no_side_effects,
)
from services.generator.rewriting.combining import WARP, combining_function
from services.generator.rewriting.context import Context, Replacement, apply, indentation, statement_end
from services.generator.rewriting.expressions import NotApplicable, coefficient
from services.generator.rewriting.positions import require_coordinates_only
from services.generator.rewriting.reductions import Update, read_update
from services.generator.rewriting.syntax import (
    Array,
    Assign,
    Block,
    Call,
    Declare,
    Expression,
    For,
    If,
    Other,
    Return,
    Statement,
    flat,
)
from services.generator.rewriting.threads import Coordinate

__all__ = ["propose"]

NAME = "warp_reduce_rows"
_REDUCIBLE = {"float", "double", "int", "unsigned int", "long", "unsigned long", "long long"}
_FLOATING = {"float", "double", "half", "__half", "__nv_bfloat16", "nv_bfloat16"}


@dataclass(frozen=True, slots=True)
class _Row:
    """A loop over the row that its lanes will share."""

    loop: For
    updates: tuple[Update, ...]
    types: dict[str, str]
    """Type of each accumulator."""


def _require_private(statement: Statement, local: set[str], accumulators: set[str]) -> None:
    for expression in expressions_of(statement):
        require_no_side_effects(expression)
        used = expression.names & accumulators
        if used:
            raise NotApplicable(f"`{min(used)}` is read while it is accumulated")
    if isinstance(statement, Declare):
        local.add(statement.name)
    if isinstance(statement, (Return, Array, Other)):
        raise NotApplicable("the loop over the row leaves early or holds something that is not understood")


def _updates(body: tuple[Statement, ...], local: set[str]) -> list[Update]:
    """Return the accumulations of a loop's body into variables declared outside of it; check the rest."""
    found: list[Update] = []
    local |= {statement.name for statement in flat(body) if isinstance(statement, Declare)}
    for statement in body:
        update = read_update(statement)
        if update is not None and update.accumulator not in local:
            found.append(update)
            continue
        match statement:
            case Assign(target=Expression(kind="name", operator=name)) if name not in local:
                raise NotApplicable(f"`{name}` is carried from one step of the loop to the next")
            case Call(call=call) if not call.operator.startswith("atomic"):
                raise NotApplicable(f"the loop calls `{call.operator}`")
            case For() | Block():
                found += _updates(statement.body, local)
            case If():
                found += _updates(statement.then, local) + _updates(statement.otherwise, local)
    return found


def _own_steps(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield the statements at any depth; a branch that is one update of an accumulator stays whole."""
    for statement in body:
        yield statement
        match statement:
            case For() | Block():
                yield from _own_steps(statement.body)
            case If() if read_update(statement) is None:
                yield from _own_steps(statement.then)
                yield from _own_steps(statement.otherwise)


def _read_row(loop: For, types: dict[str, str]) -> _Row:
    if loop.step is not None:
        raise NotApplicable(f"the loop over `{loop.variable}` has a step of `{loop.step.text}`")
    local = {loop.variable}
    updates = _updates(loop.body, local)
    accumulators = {update.accumulator for update in updates}
    for statement in _own_steps(loop.body):
        update = read_update(statement)
        if update is None or update.accumulator in local:
            _require_private(statement, local, accumulators)
        else:
            used = {name for value in update.value for name in value.names} & accumulators
            if used:
                raise NotApplicable(f"`{update.accumulator}` depends on `{min(used)}`, which the loop changes")
            for value in update.value:
                require_no_side_effects(value)
                if types.get(update.accumulator) not in _FLOATING and value.type in _FLOATING:
                    raise NotApplicable(f"`{update.accumulator}` is rounded to an integer at each step")
    operations: dict[str, str] = {}
    for update in updates:
        if operations.setdefault(update.accumulator, update.operation) != update.operation:
            raise NotApplicable(f"`{update.accumulator}` is accumulated in two ways")
        if types.get(update.accumulator) not in _REDUCIBLE:
            raise NotApplicable(f"`{update.accumulator}` is no number that lanes can exchange")
    unique = tuple({update.accumulator: update for update in updates}.values())
    return _Row(loop, unique, types)


def _check_writes(loop: For, found: tuple[Access, ...]) -> None:
    written = {access.base: access for access in found if access.written}
    for access in found:
        first = written.get(access.base)
        if first is None:
            continue
        if access.index != first.index:
            raise NotApplicable(f"steps of the loop over `{loop.variable}` share elements of `{access.base}`")
        if not coefficient(access.index, loop.variable):
            raise NotApplicable(f"`{access.expression.text}` is written by more than one step of the loop")


def _read_rows(context: Context, row: Coordinate) -> list[_Row]:
    work = context.threads.work
    types = {statement.name: statement.type for statement in work if isinstance(statement, Declare)}
    rows = [_read_row(statement, types) for statement in work if isinstance(statement, For)]
    if not any(found.updates for found in rows):
        raise NotApplicable("no loop accumulates along a row")
    strides: list[bool] = []
    for found in rows:
        if any(row.name in value.names for value in (found.loop.first, found.loop.bound)):
            raise NotApplicable("the length of a row depends on the row")
        reached = accesses(found.loop.body, context.threads.definitions)
        _check_writes(found.loop, reached)
        for access in reached:
            along = coefficient(access.index, found.loop.variable)
            if along:
                strides.append(along == {(): 1})
    if not strides or sum(strides) * 2 <= len(strides):
        raise NotApplicable("rows are not contiguous, so lanes of a warp would not read neighbours")
    return rows


def _check_rest(statements: tuple[Statement, ...]) -> None:
    for statement in statements:
        match statement:
            case Other(text=text):
                raise NotApplicable(f"`{' '.join(text.split())[:60]}` is not understood")
            case Array(name=name):
                raise NotApplicable(f"each thread has an array of its own, `{name}`")
            case If() | Block():
                inner = flat((statement,))
                if any(isinstance(part, (For, Return, Array, Other)) for part in inner):
                    raise NotApplicable("a branch holds a loop or a return")
            case Call(call=call) if not call.operator.startswith("atomic"):
                raise NotApplicable(f"`{call.operator}` is called")
        for expression in expressions_of(statement):
            if not isinstance(statement, Call):
                require_no_side_effects(expression)


def _helpers(context: Context, rows: list[_Row], threads: int) -> tuple[dict[tuple[str, str], str], str]:
    """Return the names of the combining functions by operation and type, and their text."""
    wanted = {(update.operation, row.types[update.accumulator]): "" for row in rows for update in row.updates}
    scope = "warp" if threads == WARP else "block"
    several = len({of for _, of in wanted}) > 1
    texts = []
    for operation, of in wanted:
        suffix = f"_{of.replace(' ', '_')}" if several else ""
        name = context.fresh(f"{scope}_{operation}{suffix}")
        wanted[operation, of] = name
        texts.append(combining_function(name, operation, of, threads))
    return wanted, "\n".join(texts)


class _Rewriter:
    """Collects the changes of one function."""

    def __init__(self, context: Context, rows: list[_Row], row: Coordinate, threads: int) -> None:
        self.context, self.row, self.threads = context, row, threads
        self.rows = {id(found.loop): found for found in rows}
        self.lane = context.fresh("lane")
        self.functions, self.helper_text = _helpers(context, rows, threads)
        self.changes: list[Replacement] = []
        self.sync = "__syncwarp();" if threads == WARP else "__syncthreads();"
        self.values: dict[str, str] = {}
        self.pending: dict[str, bool] = {}
        """Arrays touched since the last barrier, and whether they were written."""

    def run(self) -> str:
        """Return the new file."""
        text, before = self.context.text, self.context.before
        self.changes.append((before, before, self.helper_text + "\n"))
        self.changes.append(self.context.header_replacement())
        self._coordinate()
        for statement in self.context.threads.work:
            self._barrier(statement)
            if id(statement) in self.rows and isinstance(statement, For):
                self._loop(self.rows[id(statement)])
            else:
                self._once(statement)
                self._remember(statement)
        return apply(text, self.changes)

    def _coordinate(self) -> None:
        row, text = self.row, self.context.text
        same = [found for found in flat(self.context.function.body) if found.start == row.declare.start]
        if len(same) > 1:
            raise NotApplicable(f"`{row.name}` is declared together with others")
        indent = "\n" + indentation(text, row.declare.start)
        whole = text[row.declare.start : row.declare.end]
        constant = "const " if re.match(r"\s*const\b", whole) else ""
        if self.threads == WARP:
            lines = [
                "// One warp for each row: its 32 lanes read neighbouring elements and combine what they found.",
                f"const int {self.lane} = threadIdx.x % 32;",
                f"{constant}{row.type} {row.name} = (blockIdx.x * blockDim.x + threadIdx.x) / 32;",
            ]
        else:
            lines = [
                (
                    f"// One block of {self.threads} threads for each row: they read neighbouring elements and combine "
                    "what they found."
                ),
                f"const int {self.lane} = threadIdx.x;",
                f"{constant}{row.type} {row.name} = blockIdx.x;",
            ]
        self.changes.append((row.declare.start, row.declare.end, indent.join(lines)))

    def _remember(self, statement: Statement) -> None:
        match statement:
            case Declare(name=name, value=Expression() as value):
                self.values[name] = value.text
            case Assign(target=Expression(kind="name", operator=name), operator=operator, value=value):
                self.values[name] = value.text if operator == "=" else "?"
            case _:
                for inner in flat((statement,)):
                    if isinstance(inner, Assign) and inner.target.kind == "name":
                        self.values[inner.target.operator] = "?"

    def _barrier(self, statement: Statement) -> None:
        """Insert a barrier if the statement reaches what other threads wrote, or overwrites what they read."""
        touched: dict[str, bool] = {}
        for access in accesses((statement,), self.context.threads.definitions):
            touched[access.base] = touched.get(access.base, False) or access.written
        if any(base in self.pending and (written or self.pending[base]) for base, written in touched.items()):
            indent = indentation(self.context.text, statement.start)
            self.changes.append((statement.start, statement.start, f"{self.sync}\n{indent}"))
            self.pending = {}
        for base, written in touched.items():
            self.pending[base] = self.pending.get(base, False) or written

    def _loop(self, found: _Row) -> None:
        loop, text = found.loop, self.context.text
        indent = indentation(text, loop.start)
        first = self.lane if loop.first.text == "0" else f"{loop.first.text} + {self.lane}"
        header = (
            f"for ({loop.type} {loop.variable} = {first}; {loop.variable} {loop.relation} {loop.bound.text}; "
            f"{loop.variable} += {self.threads}) "
        )
        before, after = [], []
        for update in found.updates:
            name, of = update.accumulator, found.types[update.accumulator]
            function = self.functions[update.operation, of]
            if update.identity and not _is_number(self.values.get(name, "?"), update.identity):
                kept = self.context.fresh(f"{name}_before")
                sign = "+" if update.operation == "sum" else "*"
                before += [f"const {of} {kept} = {name};", f"{name} = {update.identity};"]
                after.append(f"{name} = {kept} {sign} {function}({name});")
            else:
                after.append(f"{name} = {function}({name});")
            self.values[name] = "?"
        opening = "".join(f"{line}\n{indent}" for line in before)
        self.changes.append((loop.start, loop.body_start, opening + header))
        end = statement_end(text, loop.end)
        self.changes.append((end, end, "".join(f"\n{indent}{line}" for line in after)))

    def _once(self, statement: Statement) -> None:
        """Let one lane do what a thread did once for its row, if it writes memory."""
        match statement:
            case Assign(target=Expression(kind=kind)) if kind != "name":
                self.changes.append((statement.start, statement.start, f"if ({self.lane} == 0) "))
            case Call():
                self.changes.append((statement.start, statement.start, f"if ({self.lane} == 0) "))
            case If() | Block() if any(
                isinstance(inner, Call) or (isinstance(inner, Assign) and inner.target.kind != "name")
                for inner in flat((statement,))
            ):
                if any(isinstance(inner, Assign) and inner.target.kind == "name" for inner in flat((statement,))):
                    raise NotApplicable("a branch writes memory and a variable")
                self.changes.append((statement.start, statement.start, f"if ({self.lane} == 0) {{ "))
                end = statement_end(self.context.text, statement.end)
                self.changes.append((end, end, " }"))


def _is_number(text: str, value: str) -> bool:
    try:
        return float(text.strip("() ").rstrip("fFuUlL") or "?") == float(value)
    except ValueError:
        return False


def propose(context: Context) -> list[Edit]:
    """Propose a warp for each row, and a block for each row.

    Raises:
        NotApplicable: threads do not walk contiguous rows, or do it in a way that lanes cannot share.
    """
    row = context.threads.only()
    if row.axis != "x" or context.block()[1:] != ["1", "1"]:
        raise NotApplicable("rows are not numbered along x alone")
    context.require_unshadowed()
    require_coordinates_only(context)
    context.require_distinct_buffers()
    rows = _read_rows(context, row)
    _check_rest(tuple(part for part in context.threads.work if not isinstance(part, For)))
    assert row.bound is not None
    count = context.host(row.bound)
    length = context.at_time_size(context.host(rows[0].loop.bound)) if rows else None
    edits = []
    for threads, prior in (
        (WARP, 0.9 if (length or 0) <= 1024 else 0.8),
        (256, 0.85 if (length or 0) > 1024 else 0.7),
    ):
        source = _Rewriter(context, rows, row, threads).run()
        whole = "warp" if threads == WARP else "block"
        first = f"ceil_div({count}, {256 // WARP})" if threads == WARP else count
        grid = [first, *context.grid()[1:]]
        edits.append(
            context.edit(
                source,
                transformation=NAME,
                parameters={"threads": str(threads)},
                title=f"One {whole} of {threads} threads for each row",
                rationale=f"A thread alone walked each row, so neighbouring threads read elements a row apart. "
                f"A {whole} "
                "reads neighbouring elements together and combines its partial results.",
                precondition=f"Threads differ in `{row.name}` alone; {len(rows)} loops along contiguous rows "
                f"accumulate " + ", ".join(f"{u.accumulator} ({u.operation})" for found in rows for u in found.updates),
                targets=[BOTTLENECK_UNCOALESCED_ACCESS, BOTTLENECK_LOW_PARALLELISM, BOTTLENECK_LATENCY],
                claims=[
                    ("optiml__sectors_per_request_ld", DIRECTION_DECREASE),
                    ("launch__grid_size", DIRECTION_INCREASE),
                ],
                prior=prior,
                grid=grid,
                block=["256"],
            )
        )
    return edits
