import ast
import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor import FileDescriptor

from optiml.v1 import (
    evaluation_pb2,
    kernel_pb2,
    problem_pb2,
    search_pb2,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("optiml", "optimlctl", "services")


def _own_modules() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if (ROOT / "optiml" / "v1") not in path.parents
    ]


def test_no_service_imports_another_and_what_is_shared_imports_none() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _fields(node: ast.ClassDef) -> set[str]:
    return {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def test_no_class_mirrors_a_message() -> None:
    files: list[FileDescriptor] = [m.DESCRIPTOR for m in (evaluation_pb2, kernel_pb2, problem_pb2, search_pb2)]
    messages = [set(d.fields_by_name) for file in files for d in file.message_types_by_name.values()]
    mirrors = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in _own_modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and len(_fields(node)) >= 3
        if any(_fields(node) <= message for message in messages)
    ]
    assert not mirrors


def test_files_have_one_reason_to_exist() -> None:
    vague = {"utils", "helpers", "manager", "base", "misc", "common"}
    assert not [path for path in _own_modules() if path.stem in vague]
    assert not [str(path) for path in _own_modules() if len(path.read_text().splitlines()) > 450]


def test_only_the_client_prints() -> None:
    printing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _own_modules()
        if path.relative_to(ROOT).parts[0] != "optimlctl"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not printing
