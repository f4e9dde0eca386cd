"""A small convolutional network for 8 x 8 handwritten digits, with a training step: a task.

Nothing in this file knows of spotgrad: it would train in a plain loop just as well.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy

Batch = tuple[torch.Tensor, torch.Tensor]


class Digits(nn.Module):
    """Two blocks of convolution, batch norm, ReLU and pooling, then two dense layers."""

    def __init__(self, channels: Sequence[int] = (16, 32), hidden: int = 64) -> None:
        super().__init__()
        first, second = channels
        self.features = nn.Sequential(
            nn.Conv2d(1, first, kernel_size=3, padding=1),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, kernel_size=3, padding=1),
            nn.BatchNorm2d(second),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.scores = nn.Sequential(
            nn.Flatten(), nn.Linear(second * 2 * 2, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return ten scores per image; ``pixels`` is (batch, 1, 8, 8), each from 0 to 16."""
        return self.scores(self.features(pixels / 16))

    def training_step(self, batch: Batch, _batch_idx: int) -> torch.Tensor:
        pixels, digit = batch
        return cross_entropy(self(pixels), digit)

    def validation_step(self, batch: Batch, _batch_idx: int) -> dict[str, torch.Tensor]:
        pixels, digit = batch
        scores = self(pixels)
        return {
            "loss": cross_entropy(scores, digit),
            "accuracy": (scores.argmax(1) == digit).float().mean(),
        }
