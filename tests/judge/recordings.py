"""Evaluations of the examples' baselines: as the CPU executor gave them for an H200, and (`_h200`) as one measured.

Their `dram__bytes.sum` is the sum of the bytes read and written, as recorded.
"""

import json
from pathlib import Path

from google.protobuf import json_format

from optiml.v1 import evaluation_pb2, problem_pb2

_FOLDER = Path(__file__).parent / "recorded"


def recorded(name: str) -> tuple[problem_pb2.Problem, evaluation_pb2.Evaluation]:
    data = json.loads((_FOLDER / f"{name}.json").read_text())
    problem = json_format.ParseDict(data["problem"], problem_pb2.Problem())
    return problem, json_format.ParseDict(data["evaluation"], evaluation_pb2.Evaluation())


def with_metrics(evaluation: evaluation_pb2.Evaluation, changes: dict[str, float]) -> evaluation_pb2.Evaluation:
    """Return a copy in which these metrics have other values."""
    copy = evaluation_pb2.Evaluation.FromString(evaluation.SerializeToString())
    present = {metric.name: metric for metric in copy.metrics}
    for name, value in changes.items():
        if name in present:
            present[name].value = value
        else:
            copy.metrics.add(name=name, value=value, provenance=copy.metrics[0].provenance)
    return copy
