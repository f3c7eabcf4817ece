"""Documents that all models are tried on."""

import torch

from hsa_pyg.data import NestedSignal


def document(sentences, images=0, y=0, paragraphs=1):
    """A document of sentences of tokens, and of images beside its paragraphs."""
    signal = NestedSignal()
    words = [token for sentence in sentences for token in sentence]
    lengths = torch.tensor([len(s) for s in sentences], dtype=torch.long)
    owner = torch.arange(len(sentences)).repeat_interleave(lengths)
    first = lengths.cumsum(0) - lengths
    signal["document"].num_nodes = 1
    signal["paragraph"].pos = torch.arange(paragraphs).float()[:, None]
    signal["paragraph"].num_nodes = paragraphs
    signal["sentence"].num_nodes = len(sentences)
    signal["sentence"].pos = torch.arange(len(sentences)).float()[:, None]
    signal["token"].x = torch.tensor(words, dtype=torch.long)
    signal["token"].pos = (torch.arange(len(words)) - first[owner]).float()[:, None]
    signal["image"].x = torch.linspace(-1, 1, images * 3).view(images, 3)
    signal["image"].pos = torch.arange(images).float()[:, None] + paragraphs
    for child, parent, row in (
        ("paragraph", "document", torch.zeros(paragraphs, dtype=torch.long)),
        ("image", "document", torch.zeros(images, dtype=torch.long)),
        ("sentence", "paragraph", torch.arange(len(sentences)) % paragraphs),
        ("token", "sentence", owner),
    ):
        signal[child, "child_of", parent].edge_index = torch.stack(
            [torch.arange(row.numel()), row]
        )
    signal.y = torch.tensor([y])
    return signal


SAMPLES = [
    document([[1, 2, 3], [], [4, 5]], images=2, paragraphs=2),
    document([[6]]),
    document([[7, 8], [1, 2, 3, 4, 5, 6, 7], [3], [2, 2]], images=1, paragraphs=3),
    document([[5, 4]]),
    # No leaf at all.
    document([[]]),
]


def toy_task():
    """Documents of class 1 have the word 9 in one of their sentences."""
    generator = torch.Generator().manual_seed(0)
    signals = []
    for number in range(12):
        lengths = torch.randint(1, 5, (1 + number % 4,), generator=generator)
        sentences = [
            torch.randint(1, 9, (int(n),), generator=generator).tolist()
            for n in lengths
        ]
        if number % 2:
            sentences[number % len(sentences)].append(9)
        signals.append(document(sentences, images=number % 3, y=number % 2))
    return signals
