"""A small ALBERT: masked words and the order of two segments, learnt from plain text.

As in the paper (Lan et al., 2020): one layer's parameters serve all layers, embeddings are
factorized, and the sentence-order head tells whether two segments were swapped. Nothing in this
file knows of spotgrad.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

PADDING, MASK, FIRST_WORD = 0, 1, 3
MASKED_SHARE, KEPT, REPLACED = 0.15, 0.1, 0.1

Batch = tuple[torch.Tensor]


class Albert(nn.Module):
    """An encoder with shared layers, and two heads."""

    def __init__(
        self,
        vocabulary: int = 2_003,
        length: int = 48,
        embedding: int = 32,
        hidden: int = 64,
        layers: int = 3,
        heads: int = 4,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.words = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        self.places = nn.Embedding(length, embedding)
        self.segments = nn.Embedding(2, embedding)
        self.widen = nn.Linear(embedding, hidden)
        self.layer = nn.TransformerEncoderLayer(
            hidden, heads, 4 * hidden, dropout=0.0, activation="gelu", batch_first=True
        )
        self.narrow = nn.Sequential(
            nn.Linear(hidden, embedding), nn.GELU(), nn.LayerNorm(embedding)
        )
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.order = nn.Linear(hidden, 2)
        for each in (self.words, self.places, self.segments):
            nn.init.normal_(each.weight, std=0.1)

    def encode(self, words: torch.Tensor) -> torch.Tensor:
        """Return (batch, length, hidden) for (batch, length) words."""
        place = torch.arange(words.shape[1], device=words.device)
        segment = (place >= words.shape[1] // 2).long()
        state = self.widen(self.words(words) + self.places(place) + self.segments(segment))
        for _ in range(self.layers):
            state = self.layer(state)
        return state

    def losses(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the loss over masked words, that of the order, and the share of words found."""
        swapped = torch.rand(len(words), device=words.device) < 0.5
        halves = words.roll(words.shape[1] // 2, dims=1)
        words = torch.where(swapped[:, None], halves, words)
        chosen = torch.rand(words.shape, device=words.device) < MASKED_SHARE
        state = self.encode(_hidden(words, chosen, self.words.num_embeddings))
        scores = self.narrow(state[chosen]) @ self.words.weight.T + self.bias
        found = (scores.argmax(1) == words[chosen]).float().mean()
        order = cross_entropy(self.order(state[:, 0]), swapped.long())
        return cross_entropy(scores, words[chosen]), order, found

    def training_step(self, batch: Batch, _batch_idx: int) -> torch.Tensor:
        masked, order, _ = self.losses(batch[0])
        return masked + order

    def validation_step(self, batch: Batch, _batch_idx: int) -> dict[str, torch.Tensor]:
        masked, order, found = self.losses(batch[0])
        return {"loss": masked + order, "masked_loss": masked, "found": found}


def _hidden(words: torch.Tensor, chosen: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Return the words with most of the chosen ones masked, some replaced and some kept (BERT)."""
    luck = torch.rand(words.shape, device=words.device)
    random = torch.randint(FIRST_WORD, vocabulary, words.shape, device=words.device)
    seen = torch.where(chosen & (luck >= KEPT + REPLACED), MASK, words)
    return torch.where(chosen & (luck < REPLACED), random, seen)
