"""The function that a launch refers to: its parameters, its definition, and its name as compilers take it."""

import re

from clang import cindex
from clang.cindex import Cursor, CursorKind, TemplateArgumentKind

from optiml.cuda.pieces import is_global

__all__ = ["definition_of", "kernel_name", "parameters_of"]


def kernel_name(function: Cursor, written: str) -> str:
    """Return the name expression of a launched function, as in "ns::relu<float, 256>".

    Args:
        function: the function, for a template the instance that the launch refers to.
        written: the name as the launch has it; it serves where the template arguments cannot be told.
    """
    name = _qualified(function)
    count = function.get_num_template_arguments()
    if count <= 0:
        template = re.search(r"<.*>\Z", written, re.DOTALL)
        return name + (" ".join(template.group().split()) if template else "")
    arguments: list[str] = []
    for index in range(count):
        kind = function.get_template_argument_kind(index)
        if kind == TemplateArgumentKind.TYPE:
            arguments.append(function.get_template_argument_type(index).get_canonical().spelling)
        elif kind == TemplateArgumentKind.INTEGRAL:
            signed = function.get_template_argument_value(index)
            is_true = signed == -1 and function.get_template_argument_unsigned_value(index) == 1
            arguments.append("true" if is_true else str(signed))
        else:
            return name + written[written.find("<") :] if "<" in written else name
    return f"{name}<{', '.join(arguments)}>"


def _qualified(function: Cursor) -> str:
    names = [function.spelling]
    parent = function.semantic_parent
    while parent is not None and parent.kind in {CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC}:
        if parent.kind == CursorKind.NAMESPACE and parent.spelling and not parent.spelling.startswith("("):
            names.append(parent.spelling)
        parent = parent.semantic_parent
    return "::".join(reversed(names))


def parameters_of(function: Cursor) -> list[Cursor]:
    """Return the parameters of a function or function template."""
    definition = function.get_definition()  # a declaration may leave out names
    if definition is not None and definition.kind == function.kind:
        function = definition
    return list(function.get_arguments()) or [c for c in function.get_children() if c.kind == CursorKind.PARM_DECL]


def definition_of(function: Cursor) -> Cursor:
    """Return the function's definition: of a template instance, the template's, whose body can be walked."""
    definition = function.get_definition() or function
    if not is_global(definition) or not any(c.kind == CursorKind.COMPOUND_STMT for c in definition.get_children()):
        template = cindex.conf.lib.clang_getSpecializedCursorTemplate(function)
        if template is not None and template.kind == CursorKind.FUNCTION_TEMPLATE:
            return template
    return definition
