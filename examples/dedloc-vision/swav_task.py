"""Contrastive pretraining without labels, in the manner of SwAV (Caron et al., 2020), toy-sized.

Two views of each image are assigned to prototypes, evenly over the batch (Sinkhorn), and each view
has to predict the other's assignment. Nothing in this file knows of spotgrad.
"""

import torch
from torch import nn
from torch.nn.functional import affine_grid, grid_sample, log_softmax, normalize

Batch = tuple[torch.Tensor, torch.Tensor]


class Swav(nn.Module):
    """A small encoder, a projection head, and prototypes."""

    def __init__(
        self,
        prototypes: int = 30,
        features: int = 32,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        iterations: int = 3,
    ) -> None:
        super().__init__()
        self.temperature, self.epsilon, self.iterations = temperature, epsilon, iterations
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.project = nn.Sequential(
            nn.Linear(128, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, features),
            nn.BatchNorm1d(features, affine=False),  # spreads them: a collapse is no way out
        )
        self.prototypes = nn.Linear(features, prototypes, bias=False)

    def scores(self, views: torch.Tensor) -> torch.Tensor:
        """Return the cosine of each view with each prototype."""
        features = normalize(self.project(self.encoder(views)), dim=1)
        return features @ normalize(self.prototypes.weight, dim=1).T

    def swapped_loss(self, images: torch.Tensor) -> torch.Tensor:
        """Return how badly each view predicts the assignment of the other."""
        first, second = self.scores(view_of(images)), self.scores(view_of(images))
        with torch.no_grad():
            targets = [self.assigned(first), self.assigned(second)]
        logs = [log_softmax(scores / self.temperature, dim=1) for scores in (second, first)]
        pairs = zip(targets, logs, strict=True)
        return -sum((target * log).sum(1).mean() for target, log in pairs) / 2

    def assigned(self, scores: torch.Tensor) -> torch.Tensor:
        """Return soft assignments whose columns are equally heavy (Sinkhorn-Knopp)."""
        shares = torch.exp(scores / self.epsilon)
        for _ in range(self.iterations):
            shares = shares / shares.sum(0, keepdim=True) / shares.shape[1]
            shares = shares / shares.sum(1, keepdim=True) / shares.shape[0]
        return shares * shares.shape[0]

    def training_step(self, batch: Batch, _batch_idx: int) -> torch.Tensor:
        return self.swapped_loss(batch[0])

    def validation_step(self, batch: Batch, _batch_idx: int) -> dict[str, torch.Tensor]:
        images, labels = batch
        features = normalize(self.encoder(images), dim=1)
        near = features @ features.T
        near.fill_diagonal_(-1.0)
        agree = (labels[near.argmax(1)] == labels).float().mean()
        return {"loss": self.swapped_loss(images), "neighbours": agree}


def view_of(images: torch.Tensor) -> torch.Tensor:
    """Return each image turned, scaled, shifted and noisy, a little and at random."""
    count = len(images)
    angle = (torch.rand(count, device=images.device) - 0.5) * 0.7
    scale = 0.85 + 0.3 * torch.rand(count, device=images.device)
    shift = (torch.rand(count, 2, device=images.device) - 0.5) * 0.4
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = [
        torch.stack([cos, -sin, shift[:, 0]], dim=1),
        torch.stack([sin, cos, shift[:, 1]], dim=1),
    ]
    grid = affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    moved = grid_sample(images, grid, align_corners=False)
    return moved + 0.05 * torch.randn_like(moved)
