import warnings
from typing import Any

import torch
from torch import nn

from spotgrad.protocol.job import Local
from spotgrad.protocol.result import Evaluated, ModelMetadata, Sum, Trained
from tests.worker_image.world import COMMIT, RUN
from worker_image.batches import Batch
from worker_image.state import load
from worker_image.training import Product, evaluate, train
from worker_image.watch import Watch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Lightning's imports warn about themselves
    import lightning

VERSION = ModelMetadata(job="j", run=RUN, version=4, commit=COMMIT, results_merged=9, roles={})


def local(passes: int = 1) -> Local:
    return Local.model_validate({"batch_size": 4, "passes": passes})


def rows(count: int) -> Batch:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, 3, generator=generator)
    return x, (x.sum(1) > 0).long()


def trained(task: nn.Module, data: Batch, *, passes: int = 1) -> Product:
    watch = Watch(lambda: None)
    generator = torch.Generator().manual_seed(1)
    return train(task, data, local(passes), VERSION, generator=generator, watch=watch)


def evaluated(task: nn.Module, data: Batch) -> dict[str, Sum]:
    product = evaluate(task, data, local(), VERSION, watch=Watch(lambda: None))
    assert isinstance(product.outcome, Evaluated)
    return product.outcome.sums


class Lit(lightning.LightningModule):
    """A LightningModule as people write them."""

    def __init__(self, lr: float = 0.1) -> None:  # noqa: ARG002 - save_hyperparameters reads it
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 2)

    def training_step(self, batch: Batch, _batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self.layer(x), y)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(x))
        return loss

    def validation_step(self, batch: Batch, _batch_idx: int) -> None:
        x, y = batch
        right = (self.layer(x).argmax(1) == y).float().mean()
        self.log_dict({"val_acc": right, "epoch": float(self.current_epoch)}, on_epoch=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams["lr"])
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


def test_a_real_lightning_module_trains_logs_and_evaluates() -> None:
    data = rows(64)
    task = Lit()
    before = evaluated(task, data)["val_acc"].total
    product = trained(Lit(), data, passes=4)
    outcome = product.outcome
    assert isinstance(outcome, Trained)
    assert outcome.sums.keys() == {"loss", "train_loss"}
    assert outcome.sums["loss"] == outcome.sums["train_loss"]
    assert outcome.sums["loss"].count == 256
    after = Lit()
    load(after, product.tensors)
    sums = evaluated(after, data)
    assert sums.keys() == {"val_acc", "epoch"}
    assert sums["val_acc"].total > max(before, 55)


class LitWithoutHooks(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def training_step(self, batch: Batch, _batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])


def test_the_stubs_of_lightnings_base_class_do_not_count_as_hooks() -> None:
    product = trained(LitWithoutHooks(), rows(8))
    assert isinstance(product.outcome, Trained)
    assert list(evaluated(LitWithoutHooks(), rows(8))) == ["loss"]
