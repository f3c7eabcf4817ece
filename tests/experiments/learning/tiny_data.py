"""Small raw data in the real formats, and one signal to nest in other ways."""

import zipfile

import torch

from hsa_pyg.data import Feature, NestedSignal, Schema

GOOD, BAD = "a good film .", "a bad film ."


def write_movie_reviews(root, number=20):
    """The archive of the reviews, where the data set keeps it."""
    path = root / "movie_reviews" / "raw" / "movie_reviews.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for label, text in (("neg", BAD), ("pos", GOOD)):
            for i in range(number):
                name = f"movie_reviews/{label}/cv{i * 1000 // number:03d}_{i}.txt"
                archive.writestr(name, f"{text}\nnumber {i} .\n" * (1 + i % 3))


def write_imdb(data, number=20):
    """A folder of reviews; a fifth of the training reviews will validate."""
    for part in ("train", "test"):
        for label, stars, text in (("neg", 2, BAD), ("pos", 9, GOOD)):
            folder = data / "imdb" / part / label
            folder.mkdir(parents=True)
            for i in range(number):
                path = folder / f"{i}_{stars}.txt"
                path.write_text(f"{text} {part}.<br /><br />Number {i}.")


def write_elec(data):
    """The files of Johnson and Zhang."""
    folder = data / "elec"
    folder.mkdir(parents=True)
    for stem, number in (("elec-25k-train", 40), ("elec-test", 8)):
        lines = [f"{(BAD, GOOD)[i % 2]} {stem}{i}" for i in range(number)]
        (folder / f"{stem}.txt.tok").write_text("\n".join(lines) + "\n")
        (folder / f"{stem}.cat").write_text("1\n2\n" * (number // 2))


def write_sst(data):
    """Trees of phrases, a single word among them."""
    trees = [
        "(4 (2 a) (4 (3 good) (2 film)))",
        "(0 (2 a) (0 (1 bad) (2 film)))",
        "(2 film)",
        "(3 (3 good) (2 (2 the) (2 film)))",
        "(1 (1 bad) (2 film))",
    ]
    folder = data / "sst_trees"
    folder.mkdir(parents=True)
    for name, times in (("train", 4), ("dev", 2), ("test", 2)):
        (folder / f"{name}.txt").write_text("\n".join(trees * times) + "\n")


SCHEMA = Schema(
    nodes={
        "document": {},
        "paragraph": {"pos": Feature((1,))},
        "sentence": {"pos": Feature((1,))},
        "token": {"x": Feature((), torch.long), "pos": Feature((1,))},
    },
    edges=[
        ("paragraph", "child_of", "document"),
        ("sentence", "child_of", "paragraph"),
        ("token", "child_of", "sentence"),
    ],
    graph={"y": Feature((), torch.long)},
)


def two_paragraphs():
    """Tokens 0 to 6 in sentences of 2, 1, 3 and 1, two in each paragraph; 1 empty."""
    signal = NestedSignal(schema=SCHEMA)
    signal["document"].num_nodes = 1
    owners = {
        "paragraph": [0, 0],
        "sentence": [0, 0, 0, 1, 1],
        "token": [0, 0, 1, 3, 3, 3, 4],
    }
    above = ["document", "paragraph", "sentence"]
    for (kind, owner), parent in zip(owners.items(), above, strict=True):
        places = [owner[:i].count(one) for i, one in enumerate(owner)]
        signal[kind].pos = torch.tensor(places).float()[:, None]
        edge = torch.tensor([range(len(owner)), owner])
        signal[kind, "child_of", parent].edge_index = edge
    signal["paragraph"].num_nodes, signal["sentence"].num_nodes = 2, 5
    signal["token"].x = torch.arange(7)
    signal.y = torch.tensor([1])
    return signal
