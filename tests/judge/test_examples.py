"""Diagnosis and judgement of the examples, evaluated on the spot by the CPU executor."""

import pytest

from optiml.cuda.importer import import_file
from optiml.cuda.submission import Submission, submission
from optiml.problem_file import load_problem
from optiml.v1 import evaluation_pb2, generator_service_pb2, judge_service_pb2, search_pb2, verdict_pb2
from services.generator.registry import propose
from services.judge.diagnose import diagnose
from services.judge.judge import judge
from tests.command_line import EXAMPLES
from tests.judge.conftest import Evaluate
from tests.judge.recordings import recorded

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.cu"))


def _example(name: str) -> Submission:
    source, problem = EXAMPLES / f"{name}.cu", EXAMPLES / f"{name}.yaml"
    imported = import_file(source.read_text(), source.name, directory=EXAMPLES)
    return submission(imported, load_problem(problem.read_text(), problem.name))


def _metrics(evaluation: evaluation_pb2.Evaluation) -> dict[str, tuple[float, int]]:
    return {metric.name: (metric.value, metric.provenance) for metric in evaluation.metrics}


@pytest.mark.parametrize("name", NAMES)
async def test_a_diagnosis_rests_on_the_counters_that_it_was_given(evaluate: Evaluate, name: str) -> None:
    example = _example(name)
    evaluation = (await evaluate(example.problem, example.kernel)).evaluation
    diagnosis = diagnose(example.problem, evaluation)
    assert diagnosis.bottleneck == diagnose(*recorded(name)).bottleneck, "the recording is out of date"
    given = _metrics(evaluation)
    for evidence in diagnosis.evidence:
        assert given[evidence.metric] == (evidence.value, evidence.provenance)
        assert evidence.value != evidence.threshold or evidence is not diagnosis.evidence[0]
    assert diagnosis.evidence[0].meaning in diagnosis.summary


@pytest.mark.parametrize("name", NAMES)
async def test_a_judgement_follows_from_the_counters_of_both_sides(evaluate: Evaluate, name: str) -> None:
    example = _example(name)
    before = (await evaluate(example.problem, example.kernel)).evaluation
    diagnosis = diagnose(example.problem, before)
    proposals = propose(
        generator_service_pb2.ProposeRequest(
            problem=example.problem, kernel=example.kernel, evaluation=before, diagnosis=diagnosis
        )
    ).edits
    for edit in proposals:
        result = await evaluate(example.problem, edit.kernel, example.kernel)
        if result.evaluation.verdict == verdict_pb2.VERDICT_OK:
            break
    assert edit.claims
    opinion = judge(
        judge_service_pb2.JudgeRequest(
            problem=example.problem,
            edit=edit,
            diagnosis=diagnosis,
            before=before,
            after=result.evaluation,
            comparison=result.comparisons[0],
        )
    )
    old, new = _metrics(before), _metrics(result.evaluation)
    assert [claim.claim for claim in opinion.claims] == list(edit.claims)
    for claim in opinion.claims:
        metric = claim.claim.metric
        assert claim.absent == (metric not in old or metric not in new)
        if claim.absent:
            continue
        assert (claim.before, claim.after) == (old[metric][0], new[metric][0])
        rose = claim.after > claim.before
        if claim.held:
            assert rose == (claim.claim.direction == search_pb2.DIRECTION_INCREASE)
        elif claim.before != claim.after:
            against = rose != (claim.claim.direction == search_pb2.DIRECTION_INCREASE)
            assert against or claim.after == pytest.approx(claim.before, rel=0.011)
    checked = [claim for claim in opinion.claims if not claim.absent]
    assert opinion.support == (sum(claim.held for claim in checked) / len(checked) if checked else 0.5)
