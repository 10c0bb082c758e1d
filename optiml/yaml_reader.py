"""Reads YAML nodes for people's files: keeps lines, collects complaints, and trusts nothing."""

import difflib
import math
from collections.abc import Iterator

import yaml

from optiml.errors import FieldViolation, InvalidArgumentError

__all__ = ["Reader", "compose"]

_MAX_COMPLAINTS = 100
_MAX_DEPTH = 16


def compose(text: str, origin: str) -> yaml.Node | None:
    """Return the root node of a YAML text; None if it is empty.

    Raises:
        InvalidArgumentError: it is no YAML, uses anchors, or is nested deeply.
    """
    try:
        _require_flat(text, origin)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = " ".join(str(error.problem).split())
        raise InvalidArgumentError(f"{origin}:{line}: is not YAML: {problem}; {_cure(problem)}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position if isinstance(error.position, int) else 0) + 1
        raise InvalidArgumentError(f"{origin}:{line}: holds a character that is not text; remove it") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidArgumentError(f"{origin}: is not YAML: nested too deeply or malformed; write it flat") from error


def _require_flat(text: str, origin: str) -> None:
    """Refuse anchors, which could make a small file huge, and depth, which takes the parser long."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidArgumentError(f"{origin}:{line}: anchors (& and *) are not read here; write it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise InvalidArgumentError(f"{origin}:{line}: is nested too deeply; write it flat")


def _cure(problem: str) -> str:
    if "\\t" in problem:
        return "indent with spaces"
    if "flow" in problem or "expected ','" in problem:
        return 'check commas and brackets, and quote what holds a comma, as in "uniform(-1, 1)"'
    return "check indentation, colons and quotes"


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"the value {str(node.value)[:40]!r}"


class Reader:
    """Collects the lines and the violations of one file while it is read."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.violations: list[FieldViolation] = []
        self.lines: dict[str, int] = {}

    def complain(self, node: yaml.Node, path: str, what: str) -> None:
        """Note a violation at a node."""
        line = node.start_mark.line + 1
        if len(self.violations) < _MAX_COMPLAINTS:
            self.violations.append(FieldViolation(path, f"{self.origin}:{line}: {path or 'file'}: {what}"))

    def items(self, node: yaml.Node, path: str, known: tuple[str, ...] = ()) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the entries of a mapping; complain about what is none, unknown keys and repeated ones."""
        if not isinstance(node, yaml.MappingNode):
            self.complain(node, path, f"is {_kind(node)}; write a mapping, as in {{M: 64}}")
            return
        seen: set[str] = set()
        for key_node, value in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            where = f"{path}.{key[:64]}".lstrip(".")
            if not isinstance(key_node, yaml.ScalarNode):
                self.complain(key_node, path, "a key is a list or a mapping; write a name")
            elif known and key not in known:
                near = difflib.get_close_matches(key[:64], known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                self.complain(key_node, where, f"unknown key; {hint}")
            elif key in seen:
                self.complain(key_node, where, "is given twice; remove one")
            else:
                seen.add(key)
                self.lines[where] = key_node.start_mark.line + 1
                yield key, value

    def text(self, node: yaml.Node, path: str) -> str:
        """Return a scalar's text as written."""
        if not isinstance(node, yaml.ScalarNode):
            self.complain(node, path, f"is {_kind(node)}; write one value")
            return ""
        self.lines[path] = node.start_mark.line + 1
        return str(node.value)

    def list(self, node: yaml.Node, path: str) -> list[yaml.Node]:
        """Return the entries of a list."""
        if not isinstance(node, yaml.SequenceNode):
            self.complain(node, path, f"is {_kind(node)}; write a list, as in [M, K]")
            return []
        for index, entry in enumerate(node.value):
            self.lines[f"{path}[{index}]"] = entry.start_mark.line + 1
        return list(node.value)

    def finite(self, node: yaml.Node, path: str, text: str) -> float:
        """Return a finite number."""
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.complain(node, path, f"{text[:40]!r} is not a number")
            return 0.0
        return number

    def flag(self, node: yaml.Node, path: str) -> bool:
        """Return true or false."""
        text = self.text(node, path)
        if text not in {"true", "false"}:
            self.complain(node, path, f"{text[:40]!r}; write true or false")
        return text == "true"
