import pytest

from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import ActiveKey, ControlKey, HeadKey, SpecKey
from spotgrad.steps.documents import (
    PlanReader,
    find_document,
    find_head,
    keyed,
    read_document,
    read_plan,
)
from tests.builders import JOB, job_plan, planned_head
from tests.fakes.store import FakeStore

KEY = ControlKey(JOB).render()


def test_a_document_is_read_by_its_key() -> None:
    store = FakeStore()
    store.put(KEY, Control(resume="ab" * 4).to_json())
    assert read_document(store, KEY, Control).resume == "abababab"
    assert find_document(store, KEY, Control) == Control(resume="abababab")


def test_an_absent_document_is_found_to_be_none_but_not_read() -> None:
    assert find_document(FakeStore(), KEY, Control) is None
    with pytest.raises(NotFound, match=r"control\.json"):
        read_document(FakeStore(), KEY, Control)


def test_a_damaged_document_is_malformed_either_way() -> None:
    store = FakeStore()
    store.put(KEY, b"{")
    for read in (read_document, find_document):
        with pytest.raises(Malformed, match="control file"):
            read(store, KEY, Control)


def test_a_head_comes_with_the_tag_under_which_it_may_be_replaced() -> None:
    store, head = FakeStore(), planned_head(job_plan())
    assert find_head(store, JOB) is None
    etag = store.put(HeadKey(JOB).render(), head.to_json())
    present = find_head(store, JOB)
    assert present is not None
    assert (present.head, present.etag) == (head, etag)


def test_the_plan_is_there_once_the_job_is_planned() -> None:
    store, plan = FakeStore(), job_plan()
    with pytest.raises(NotFound, match=r"spec\.json"):
        read_plan(store, JOB)
    store.put(SpecKey(JOB).render(), plan.to_json())
    assert read_plan(store, JOB) == plan


def test_listing_by_a_form_passes_over_what_is_not_of_it() -> None:
    store = FakeStore()
    for key in ("active/a", "active/Not A Job", "active/b", "other/c"):
        store.put(key, b"12")
    found = list(keyed(store, "active/", ActiveKey))
    assert [(info.size_bytes, key) for info, key in found] == [
        (2, ActiveKey("a")),
        (2, ActiveKey("b")),
    ]


def test_a_plan_is_read_once_a_run_and_old_ones_make_room() -> None:
    store, head = FakeStore(), planned_head(job_plan())
    store.put(SpecKey(JOB).render(), job_plan().to_json())
    plans = PlanReader(store, most=2)
    for run in ("aa" * 8, "bb" * 8, "aa" * 8):
        assert plans.read(head.model_copy(update={"run": run})) == job_plan()
    assert store.calls["get"] == 2
    plans.read(head.model_copy(update={"run": "cc" * 8}))
    plans.read(head.model_copy(update={"run": "aa" * 8}))
    assert store.calls["get"] == 4
