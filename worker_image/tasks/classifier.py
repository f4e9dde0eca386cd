"""A small multi-layer perceptron for labelled vectors: a job without any code of one's own.

Columns: ``x`` (numbers of any shape, flattened) and ``y`` (the class, from 0).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn.functional import cross_entropy

__all__ = ["Classifier"]


class Classifier(nn.Module):
    """``features`` numbers -> hidden layers with ReLU -> ``classes`` scores."""

    def __init__(self, features: int, classes: int, hidden: Sequence[int] = (64,)) -> None:
        super().__init__()
        sizes = [features, *hidden]
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(nn.Flatten(), *layers, nn.Linear(sizes[-1], classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one score per class."""
        scores: torch.Tensor = self.layers(x.float())
        return scores

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss."""
        x, y = batch
        return cross_entropy(self(x), y)

    def validation_step(
        self, batch: tuple[torch.Tensor, torch.Tensor], _: int
    ) -> dict[str, torch.Tensor]:
        """Return loss and accuracy."""
        x, y = batch
        scores = self(x)
        return {
            "loss": cross_entropy(scores, y),
            "accuracy": (scores.argmax(1) == y).float().mean(),
        }
