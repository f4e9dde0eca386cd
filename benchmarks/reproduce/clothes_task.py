"""A perceptron with one hidden layer and batch norm: the task of every experiment here.

Plain torch, as users write it; the local stack takes this very file as its code bundle.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

Batch = tuple[torch.Tensor, torch.Tensor]


class Perceptron(nn.Module):
    """Pixels -> hidden units, batch norm, ReLU -> ten scores."""

    def __init__(self, pixels: int = 196, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(pixels, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return ten scores per image; ``images`` is (batch, height, width) of uint8."""
        scores: torch.Tensor = self.layers(images.float() / 255)
        return scores

    def training_step(self, batch: Batch, _batch_idx: int) -> torch.Tensor:
        """Return the loss."""
        images, labels = batch
        return cross_entropy(self(images), labels)

    def validation_step(self, batch: Batch, _batch_idx: int) -> dict[str, torch.Tensor]:
        """Return loss and accuracy."""
        images, labels = batch
        scores = self(images)
        right = (scores.argmax(1) == labels).float()
        return {"loss": cross_entropy(scores, labels), "accuracy": right.mean()}
