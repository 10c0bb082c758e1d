import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_stubs_are_those_of_the_protos(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "generate_protos.py", tmp_path], check=True)
    fresh = {path.name: path.read_text() for path in (tmp_path / "optiml" / "v1").glob("*_pb2*")}
    committed = {path.name: path.read_text() for path in (ROOT / "optiml" / "v1").glob("*_pb2*")}
    assert fresh.keys() == committed.keys()
    stale = sorted(name for name, text in fresh.items() if committed[name] != text)
    assert not stale, f"run `make protos`: {stale}"
