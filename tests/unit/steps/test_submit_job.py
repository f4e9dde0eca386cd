import pytest

from spotgrad.errors import InvalidJob
from spotgrad.protocol.control import Control
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.protocol.keys import CodeKey, ControlKey, JobFileKey, ManifestKey, SpecKey
from spotgrad.protocol.plan import CodeRef
from spotgrad.protocol.tensors import digest
from spotgrad.steps.submit_job import Submission, submit_job
from tests.builders import JOB, job_file, manifest
from tests.fakes.store import FakeStore
from tests.unit.cli.jobs import EPOCHS, JOB_FILE, SHARDS, plan, put_manifest

CODE = b"a zip"
CODE_KEY = CodeKey(JOB, digest(CODE)).render()
JOB_KEY = JobFileKey(JOB).render()
SPEC = plan().spec
SUBMISSION = Submission(JOB_FILE, SPEC, CODE)
CODE_REF = CodeRef(key=CODE_KEY, sha256=digest(CODE), size_bytes=len(CODE))


@pytest.fixture
def store() -> FakeStore:
    made = FakeStore()
    put_manifest(made)
    return made


def test_code_goes_first_and_the_job_file_last_byte_for_byte(store: FakeStore) -> None:
    writes: list[str] = []
    store.on_write = lambda write: writes.append(write.key) if write.moment == "after" else None
    submitted = submit_job(store, SUBMISSION)
    assert writes == [CODE_KEY, JOB_KEY]
    assert store.get(JOB_KEY).body == JOB_FILE
    assert store.get(CODE_KEY).body == CODE
    assert submitted.changed
    assert (submitted.job, submitted.code_sha256) == (JOB, digest(CODE))
    assert len(submitted.manifest.splits["train"].shards) == SHARDS


def test_a_built_in_task_needs_no_code(store: FakeStore) -> None:
    assert submit_job(store, Submission(JOB_FILE, SPEC)).code_sha256 is None
    assert CODE_KEY not in store.snapshot()


def test_submitting_the_same_again_writes_nothing(store: FakeStore) -> None:
    store.put(SpecKey(JOB).render(), plan(code=CODE_REF).to_json())
    before = store.snapshot()
    assert not submit_job(store, SUBMISSION).changed
    assert store.snapshot() == before


def test_before_it_is_planned_the_same_job_is_uploaded_again(store: FakeStore) -> None:
    submit_job(store, SUBMISSION)
    assert submit_job(store, SUBMISSION).changed
    assert store.calls["put"] == 5  # the manifest, and twice code and job file


def test_a_wish_to_stop_an_earlier_job_of_the_name_does_not_stop_this_one(
    store: FakeStore,
) -> None:
    control = ControlKey(JOB).render()
    store.put(control, Control(want="cancel").to_json())
    submit_job(store, SUBMISSION)
    assert Control.from_json(store.get(control).body) == Control()


@pytest.mark.parametrize(
    ("submission", "different"),
    [
        (Submission(JOB_FILE + b"\n", SPEC, CODE), "job file"),
        (Submission(JOB_FILE, SPEC, b"other"), "code"),
        (Submission(JOB_FILE, SPEC, None), "code"),
        (Submission(JOB_FILE + b"\n", SPEC, b"other"), "job file and code"),
    ],
)
def test_a_name_that_is_taken_by_other_content_is_refused(
    store: FakeStore, submission: Submission, different: str
) -> None:
    store.put(SpecKey(JOB).render(), plan(code=CODE_REF).to_json())
    before = store.snapshot()
    with pytest.raises(InvalidJob, match=f"'{JOB}' is taken by a job with {different} other than"):
        submit_job(store, submission)
    assert store.snapshot() == before


def test_a_missing_data_set_is_refused_with_the_command_that_pushes_it() -> None:
    store = FakeStore()
    with pytest.raises(InvalidJob, match="'digits' is not in the bucket; push it first: spotgrad"):
        submit_job(store, SUBMISSION)
    assert store.snapshot() == {}


@pytest.mark.parametrize(
    ("kept", "missing"),
    [("train", r"'validation' \(evaluate.split\)"), ("test", r"'train' \(training\)")],
)
def test_a_split_that_the_job_needs_must_exist(kept: str, missing: str) -> None:
    store = FakeStore()
    only = {kept: manifest(2).splits["train"]}
    store.put(
        ManifestKey("digits").render(), manifest().model_copy(update={"splits": only}).to_json()
    )
    before = store.snapshot()
    with pytest.raises(InvalidJob, match=f"has no split {missing}; it has: {kept}"):
        submit_job(store, SUBMISSION)
    assert store.snapshot() == before


def test_without_evaluation_training_data_is_enough() -> None:
    store = FakeStore()
    store.put(ManifestKey("digits").render(), manifest(SHARDS, 0).to_json())
    body = job_file(epochs=EPOCHS, evaluate=None)
    assert submit_job(store, Submission(body, parse_job_file(body))).changed


def test_a_damaged_data_set_is_to_be_pushed_again() -> None:
    store = FakeStore()
    store.put(ManifestKey("digits").render(), b"{}")
    with pytest.raises(
        InvalidJob, match=r"'digits' is damaged .*; push it again: spotgrad dataset"
    ):
        submit_job(store, SUBMISSION)
