from typing import Any

from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.plan import JobPlan
from tests.unit.protocol.test_dataset import MANIFEST

SPEC: dict[str, Any] = {"name": "d", "task": "m:T", "dataset": "digits", "epochs": 1}


def plan(**spec: Any) -> JobPlan:
    return JobPlan(
        run="00000001",
        job_file_sha256="0" * 64,
        spec=JobSpec.model_validate(SPEC | spec),
        manifest=DatasetManifest.model_validate(MANIFEST),
    )


def test_an_epoch_has_a_subtask_for_every_training_shard() -> None:
    assert plan().train_shards == 2


def test_an_evaluation_has_a_subtask_for_every_shard_of_its_split() -> None:
    assert plan().evaluation_shards == 1
    assert plan(evaluate={"split": "train"}).evaluation_shards == 2


def test_a_job_need_not_evaluate() -> None:
    assert plan(evaluate=None).evaluation_shards == 0
