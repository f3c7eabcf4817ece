"""A data set that any model can learn, made of plain HeteroData."""

import pytest
import torch
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.utils import scatter

from hsa_pyg.integrations.lightning import SignalDataModule


class MeanModel(nn.Module):
    """The mean over the words of a signal, then a linear map."""

    def __init__(self, out_channels, dropout):
        super().__init__()
        self.linear = nn.Linear(4, out_channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch):
        words = batch["word"]
        x = scatter(words.x, words.batch, dim_size=batch.num_graphs, reduce="mean")
        return self.linear(self.dropout(x))


def signal(label, num_words, generator):
    data = HeteroData(y=torch.tensor([label]))
    data["word"].x = torch.randn(num_words, 4, generator=generator) + 2 * label - 1
    return data


@pytest.fixture
def make_model():
    """A function that makes the same model each time."""

    def make(out_channels=2, dropout=0.0):
        torch.manual_seed(0)
        return MeanModel(out_channels, dropout)

    return make


@pytest.fixture
def make_data():
    """A function that makes the same data module each time."""

    def make(batch_size=4):
        generator = torch.Generator().manual_seed(0)
        signals = [signal(i % 2, 1 + i % 7, generator) for i in range(40)]
        parts = signals[:24], signals[24:32], signals[32:]
        return SignalDataModule(*parts, batch_size=batch_size)

    return make
