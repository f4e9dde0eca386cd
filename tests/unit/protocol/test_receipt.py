from typing import Any

import pytest
from hypothesis import given

from spotgrad.errors import Malformed
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.receipt import EpochCost, Receipt
from tests.unit.protocol.documents import models

ROW = EpochCost(epoch=1, worker_seconds=90, counted_seconds=60, trained=Bitmap.of([0, 3]))
RECEIPT = Receipt(
    job="d", run="aa" * 8, usd_per_hour=0.4, worker_seconds=90, usd=0.01, epochs=(ROW,)
)


@given(models(Receipt))
def test_a_receipt_is_read_back(receipt: Receipt) -> None:
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_the_document_says_what_is_not_known() -> None:
    document = RECEIPT.model_dump(mode="json")
    assert document["on_demand_usd"] is document["saved_percent"] is None
    assert document["epochs"][0]["trained"] == "9"
    assert document["schema"] == 1


@pytest.mark.parametrize("change", [{"usd": -1}, {"usd_per_hour": 0}, {"worker_seconds": -1}])
def test_money_and_time_are_not_negative(change: dict[str, Any]) -> None:
    body = RECEIPT.model_copy(update=change).to_json()
    with pytest.raises(Malformed, match=f"receipt: {next(iter(change))}"):
        Receipt.from_json(body)
