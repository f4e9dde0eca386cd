import pytest

from spotgrad.errors import Malformed, NotFound, StoreUnavailable
from spotgrad.protocol.keys import CodeKey, HeadKey, SpecKey
from spotgrad.protocol.tensors import digest, encode
from tests.worker_image.world import World
from worker_image.cache import MemoryCache
from worker_image.inputs import Inputs

FLIP = 1


def inputs(world: World) -> Inputs:
    return Inputs(world.store, MemoryCache())


def damage(world: World, key: str) -> None:
    body = bytearray(world.store.get(key).body)
    body[-1] ^= FLIP
    world.store.put(key, bytes(body))


def test_everything_is_fetched_once(world: World) -> None:
    reader = inputs(world)
    assert world.plan.code is not None
    world.store.calls.clear()
    for _ in range(3):
        assert reader.plan(world.head) == world.plan
        assert reader.model(world.head, world.model).metadata.version == 3
        assert reader.shard(world.manifest, "train", 1).tensors["x"].shape == (4, 2)
        assert digest(reader.code(world.plan.code)) == world.plan.code.sha256
    assert world.store.calls["get"] == 4
    assert reader.head("tiny-job") == world.head
    assert reader.head("tiny-job") == world.head
    assert world.store.calls["get"] == 6  # the head is the truth: never from a cache


def test_a_job_without_a_head_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        inputs(world).head("another-job")


def test_a_head_that_is_no_head_is_malformed(world: World) -> None:
    world.store.put(HeadKey("tiny-job").render(), b"{}")
    with pytest.raises(Malformed, match="head"):
        inputs(world).head("tiny-job")


def test_a_new_run_reads_its_own_plan(world: World) -> None:
    reader = inputs(world)
    reader.plan(world.head)
    new_head = world.head.model_copy(update={"run": "ffffffffffffffff"})
    with pytest.raises(StoreUnavailable, match="of run 0123456789abcdef, the head of run fff"):
        reader.plan(new_head)
    new_plan = world.plan.model_copy(update={"run": "ffffffffffffffff"})
    world.store.put(SpecKey("tiny-job").render(), new_plan.to_json())
    assert reader.plan(new_head) == new_plan


def test_of_models_the_last_one_is_kept(world: World) -> None:
    reader = inputs(world)
    older = world.put_model(2)
    world.store.calls.clear()
    for wanted, reads in ((older, 1), (older, 1), (world.model, 2), (older, 3)):
        assert reader.model(world.head, wanted).metadata.version == wanted.version
        assert world.store.calls["get"] == reads


def test_a_damaged_model_is_asked_for_again_later(world: World) -> None:
    reader = inputs(world)
    good = world.store.get(world.model.key).body
    damage(world, world.model.key)
    with pytest.raises(StoreUnavailable, match="SHA-256"):
        reader.model(world.head, world.model)
    world.store.put(world.model.key, good)
    assert reader.model(world.head, world.model).metadata.version == 3


def test_a_model_that_is_gone_is_a_reason_to_read_the_head_again(world: World) -> None:
    world.store.delete(world.model.key)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        inputs(world).model(world.head, world.model)


@pytest.mark.parametrize("body", [b"", b"cut", encode({}, {})])
def test_an_older_version_is_checked_by_its_header(world: World, body: bytes) -> None:
    older = world.put_model(2)
    world.store.put(older.key, body)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        inputs(world).model(world.head, older)


def test_another_version_under_the_key_is_not_taken(world: World) -> None:
    older = world.put_model(2)
    world.store.put(older.key, world.store.get(world.model.key).body)
    with pytest.raises(StoreUnavailable, match="its header says"):
        inputs(world).model(world.head, older)


def test_a_shard_damaged_on_the_wire_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = world.manifest.splits["train"].shards[0].key
    good = world.store.get(key).body
    damage(world, key)
    store_get = world.store.get

    def get(asked: str) -> object:
        found = store_get(asked)
        world.store.put(asked, good)  # whole at the second read
        return found

    monkeypatch.setattr(world.store, "get", get)
    assert inputs(world).shard(world.manifest, "train", 0).tensors["y"].shape == (4,)


def test_a_shard_that_stays_damaged_is_refused_by_name(world: World) -> None:
    key = world.manifest.splits["train"].shards[0].key
    damage(world, key)
    with pytest.raises(Malformed, match=rf"{key}: .* SHA-256 is not"):
        inputs(world).shard(world.manifest, "train", 0)


def test_a_damaged_cache_costs_one_download(world: World) -> None:
    cache = MemoryCache()
    shard = world.manifest.splits["train"].shards[0]
    cache.put(shard.sha256, b"damaged")
    world.store.calls.clear()
    file = Inputs(world.store, cache).shard(world.manifest, "train", 0)
    assert file.tensors["x"].shape == (4, 2)
    assert world.store.calls["get"] == 1
    assert cache.get(shard.sha256) == world.store.get(shard.key).body


def test_a_shard_that_is_missing_is_not_found(world: World) -> None:
    world.store.delete(world.manifest.splits["train"].shards[0].key)
    with pytest.raises(NotFound):
        inputs(world).shard(world.manifest, "train", 0)


@pytest.mark.parametrize(
    ("split", "number", "problem"),
    [("test", 0, "no split 'test'"), ("train", 2, "has 2 shards, there is no 2")],
)
def test_a_shard_that_the_manifest_does_not_have(
    world: World, split: str, number: int, problem: str
) -> None:
    with pytest.raises(Malformed, match=problem):
        inputs(world).shard(world.manifest, split, number)


def test_a_shard_of_another_data_set_is_not_read(world: World) -> None:
    """A manifest is checked when it is read; this one never was."""
    foreign = world.manifest.model_copy(update={"dataset": "other"})
    with pytest.raises(Malformed, match="does not belong to data set 'other'"):
        inputs(world).shard(foreign, "train", 0)


@pytest.mark.parametrize("place", ["datasets/secret/", "state/tiny/", "datasets/tiny/../tiny/"])
def test_a_plan_whose_shards_lie_elsewhere_is_not_taken(world: World, place: str) -> None:
    key = SpecKey(world.plan.spec.name).render()
    text = world.store.get(key).body.decode()
    assert "datasets/tiny/" in text
    world.store.put(key, text.replace("datasets/tiny/", place).encode())
    with pytest.raises(Malformed, match=r"^job plan: manifest: .*shard key "):
        inputs(world).plan(inputs(world).head(world.plan.spec.name))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"samples":4', '"samples":5'),
        ('"dtype":"int32"', '"dtype":"int64"'),
        ('"shape":[2]', '"shape":[3]'),
        ('"name":"y"', '"name":"z"'),
    ],
)
def test_a_shard_is_what_the_manifest_promises(world: World, old: str, new: str) -> None:
    text = world.manifest.to_json().decode()
    assert old in text
    manifest = type(world.manifest).from_json(text.replace(old, new))
    with pytest.raises(Malformed, match=r"column '\w' is .*, the manifest says"):
        inputs(world).shard(manifest, "train", 0)


def test_code_is_refused_when_its_digest_is_another(world: World) -> None:
    assert world.plan.code is not None
    damage(world, world.plan.code.key)
    with pytest.raises(Malformed, match="upload it again"):
        inputs(world).code(world.plan.code)
    assert CodeKey.parse(world.plan.code.key).sha256 == world.plan.code.sha256
