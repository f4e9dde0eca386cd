import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.protocol import keys
from spotgrad.protocol.key_grammar import Key
from spotgrad.protocol.keys import SubtaskName

SHA256 = "0123456789abcdef" * 4
OF_ATTEMPT: dict[str, Any] = {
    "job": "digits",
    "epoch": 7,
    "subtask": "train-000003",
    "attempt": "deadbeef",
}

# One table drives both directions.
TABLE: list[tuple[Key, str]] = [
    (SubtaskName("initialize"), "initialize"),
    (SubtaskName("train", 0), "train-000000"),
    (SubtaskName("evaluate", 999_999), "evaluate-999999"),
    (keys.JobFileKey("digits-cnn"), "jobs/digits-cnn/job.yaml"),
    (keys.CodeKey("d", SHA256), f"jobs/d/code-{SHA256}.zip"),
    (keys.ControlKey("d"), "jobs/d/control.json"),
    (keys.ManifestKey("digits"), "datasets/digits/manifest.json"),
    (
        keys.ShardKey("digits", 3, SHA256[:16]),
        "datasets/digits/000003-0123456789abcdef.safetensors",
    ),
    (keys.ResultKey(**OF_ATTEMPT), "results/digits/000007/train-000003/deadbeef.safetensors"),
    (keys.AttemptKey(**OF_ATTEMPT), "attempts/digits/000007/train-000003/deadbeef.json"),
    (keys.PartialKey(**OF_ATTEMPT), "partial/digits/000007/train-000003/deadbeef.safetensors"),
    (keys.RejectionKey(**OF_ATTEMPT), "rejected/digits/000007/train-000003/deadbeef.json"),
    (keys.ModelKey("d", 12, "cafe0123"), "models/d/00000012-cafe0123/server.safetensors"),
    (keys.ModelKey("d", 0, "cafe0123", "ema"), "models/d/00000000-cafe0123/ema.safetensors"),
    (keys.HeadKey("d"), "state/d/head.json"),
    (keys.SpecKey("d"), "state/d/spec.json"),
    (keys.RefusedKey("d"), "state/d/refused.json"),
    (keys.ReceiptKey("d"), "state/d/receipt.json"),
    (keys.LedgerKey("d", 99_999_999, "0" * 64), f"state/d/ledger/99999999-{'0' * 64}.json"),
    (keys.ActiveKey("9-lives"), "active/9-lives"),
    (keys.AnnouncedKey("digits"), "state/digits/announced.json"),
    (keys.ExpiringKey("9-lives"), "expiring/9-lives"),
    (keys.FleetKey("spot"), "fleet/spot.json"),
]
KINDS: list[type[Key]] = [
    kind
    for kind in vars(keys).values()
    if isinstance(kind, type)
    and issubclass(kind, Key)
    and kind.__name__.endswith("Key")
    and kind.form
]

names = st.from_regex("[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
ids = st.from_regex("[0-9a-f]{8,64}", fullmatch=True)
shards = st.integers(0, 999_999)
versions = st.integers(0, 99_999_999)
subtasks = st.one_of(
    st.just(SubtaskName("initialize")),
    st.builds(SubtaskName, st.sampled_from(["train", "evaluate"]), shards),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "job": names,
    "dataset": names,
    "attempt": ids,
    "commit": ids,
    "sha256": st.from_regex("[0-9a-f]{64}", fullmatch=True),
    "sha256_head": st.from_regex("[0-9a-f]{16}", fullmatch=True),
    "epoch": st.integers(0, 999_999),
    "shard": shards,
    "version": versions,
    "revision": versions,
    "subtask": subtasks.map(SubtaskName.render),
    "name": st.sampled_from(["server", "ema", "momentum", "buffers"]),
}
any_key = st.sampled_from(KINDS).flatmap(
    lambda kind: st.builds(kind, **{f.name: VALUES[f.name] for f in dataclasses.fields(kind)})
)


@pytest.mark.parametrize(("key", "text"), TABLE, ids=[text[:40] for _, text in TABLE])
def test_renders_and_parses(key: Key, text: str) -> None:
    assert key.render() == text
    assert type(key).parse(text) == key


def test_the_table_holds_every_kind() -> None:
    assert {type(key) for key, _ in TABLE} == {*KINDS, SubtaskName}


@given(any_key)
def test_every_key_is_read_back_by_its_own_kind_and_no_other(key: Key) -> None:
    readers = []
    for kind in KINDS:
        try:
            readers.append(kind.parse(key.render()))
        except Malformed:
            continue
    assert readers == [key]


@given(subtasks)
def test_every_subtask_name_is_read_back(name: SubtaskName) -> None:
    assert SubtaskName.parse(name.render()) == name


@given(st.text(), st.sampled_from(KINDS))
def test_text_is_refused_or_rendered_back_unchanged(text: str, kind: type[Key]) -> None:
    try:
        key = kind.parse(text)
    except Malformed:
        return
    assert key.render() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "results/d/000007/train-000003/deadbeef.safetensors\n",
        "/results/d/000007/train-000003/deadbeef.safetensors",
        "results//000007/train-000003/deadbeef.safetensors",
        "results/d/../000007/train-000003/deadbeef.safetensors",
        "results/../000007/train-000003/deadbeef.safetensors",
        "results/d/e/000007/train-000003/deadbeef.safetensors",
        "results/D/000007/train-000003/deadbeef.safetensors",
        "results/-d/000007/train-000003/deadbeef.safetensors",
        f"results/{'d' * 64}/000007/train-000003/deadbeef.safetensors",
        "results/d/7/train-000003/deadbeef.safetensors",
        "results/d/0000007/train-000003/deadbeef.safetensors",
        "results/d/\u0660\u0660\u0660\u0660\u0660\u0667/train-000003/deadbeef.safetensors",
        "results/d/-00007/train-000003/deadbeef.safetensors",
        "results/d/000007/train-3/deadbeef.safetensors",
        "results/d/000007/train/deadbeef.safetensors",
        "results/d/000007/initialize-000000/deadbeef.safetensors",
        "results/d/000007/test-000003/deadbeef.safetensors",
        "results/d/000007/train-000003/DEADBEEF.safetensors",
        "results/d/000007/train-000003/deadbee.safetensors",
        f"results/d/000007/train-000003/{'a' * 65}.safetensors",
        "results/d/000007/train-000003/deadbeef.safetensors.part",
        "results/d/000007/train-000003/deadbeefxsafetensors",
        "results/d/000007/train-000003/deadbeef/x.safetensors",
        "results%2Fd%2F000007%2Ftrain-000003%2Fdeadbeef.safetensors",
        "rejected/d/000007/train-000003/deadbeef.safetensors",
    ],
)
def test_a_key_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(Malformed) as caught:
        keys.ResultKey.parse(text)
    assert str(caught.value) == (
        f"key {text!r}: not of the form results/<job>/<epoch>/<subtask>/<attempt>.safetensors"
    )


@pytest.mark.parametrize("text", ["jobs/d/job.yml", "jobs/d/e/job.yaml", "jobs/my job+é/job.yaml"])
def test_only_job_yaml_of_a_well_named_job_is_a_job_file(text: str) -> None:
    with pytest.raises(Malformed, match=r"not of the form jobs/<job>/job\.yaml"):
        keys.JobFileKey.parse(text)


@pytest.mark.parametrize(
    "text", ["", "train", "train-", "train-1", "initialize-000001", "train-000001\n"]
)
def test_a_subtask_name_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="subtask"):
        SubtaskName.parse(text)


@pytest.mark.parametrize(
    ("kind", "shard", "said"),
    [
        ("train", None, "only initialize has none"),
        ("initialize", 0, "only initialize has none"),
        ("train-000001", None, "only initialize has none"),
        ("test", 1, "subtask 'test-000001': does not match"),
        ("train", 1_000_000, "shard 1000000: not a whole number of at most 6 digits"),
        ("train", -1, "shard -1"),
        ("train", True, "shard True"),
    ],
)
def test_an_invalid_subtask_name_cannot_be_built(kind: Any, shard: Any, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        SubtaskName(kind, shard)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"job": "../other"}, r"job '\.\./other': does not match"),
        ({"job": "d\n"}, "job"),
        ({"job": 7}, "job 7"),
        ({"epoch": 1_000_000}, "epoch 1000000: not a whole number of at most 6 digits"),
        ({"epoch": "000007"}, "epoch '000007'"),
        ({"epoch": 7.0}, "epoch 7.0"),
        ({"subtask": "train-1"}, "subtask 'train-1'"),
        ({"attempt": "x" * 8}, "attempt 'xxxxxxxx'"),
    ],
)
def test_an_invalid_key_cannot_be_built(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(Malformed, match=said):
        keys.ResultKey(**(OF_ATTEMPT | changed))


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        (keys.code_prefix("d"), "jobs/d/code-"),
        (keys.models_prefix("d"), "models/d/"),
        (keys.ledger_prefix("d"), "state/d/ledger/"),
        (keys.rejected_prefix("d"), "rejected/d/"),
        (keys.results_prefix("d"), "results/d/"),
        (keys.results_prefix("d", 0), "results/d/000000/"),
        (keys.attempts_prefix("d"), "attempts/d/"),
        (keys.attempts_prefix("d", 7), "attempts/d/000007/"),
        (keys.attempts_prefix("d", 7, "train-000003"), "attempts/d/000007/train-000003/"),
        (keys.partials_prefix("d"), "partial/d/"),
        (keys.partials_prefix("d", 7, "train-000003"), "partial/d/000007/train-000003/"),
    ],
)
def test_prefixes(prefix: str, text: str) -> None:
    assert prefix == text


def test_every_prefix_is_one_of_a_key_in_the_table() -> None:
    rendered = [text for _, text in TABLE]
    for prefix in (
        keys.ACTIVE_PREFIX,
        keys.EXPIRING_PREFIX,
        keys.JOBS_PREFIX,
        keys.RESULTS_PREFIX,
        keys.code_prefix("d"),
        keys.models_prefix("d"),
        keys.ledger_prefix("d"),
        keys.rejected_prefix("digits"),
        keys.results_prefix("digits", 7),
        keys.attempts_prefix("digits", 7, "train-000003"),
        keys.partials_prefix("digits", 7, "train-000003"),
    ):
        assert any(text.startswith(prefix) for text in rendered), prefix


def test_a_prefix_never_reaches_into_a_job_whose_name_begins_alike() -> None:
    assert not keys.HeadKey("digits-2").render().startswith(keys.ledger_prefix("digits"))
    with pytest.raises(Malformed, match="job"):
        keys.results_prefix("")
    with pytest.raises(Malformed, match="job"):
        keys.models_prefix("d/../e")
