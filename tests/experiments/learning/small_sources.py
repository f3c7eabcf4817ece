"""Small raw data of graphs, websites, molecules and items in the real formats."""

import json
import pickle
import tarfile
from collections import defaultdict

import numpy as np
from PIL import Image
from scipy.sparse import csr_matrix

TOPICS = ("crop the canvas and resize it", "look at it from further away")


def write_cora(data, number=540, test=30):
    """Papers in three fields, each a ring; the words of a paper tell its field."""
    folder = data / "planetoid"
    folder.mkdir(parents=True)
    field = np.arange(number) % 3
    words = np.eye(3, 6, dtype=np.float32)[field]
    labels = np.eye(3)[field]
    graph = defaultdict(list)
    for paper in range(number):
        graph[paper] = [(paper + 3) % number, (paper - 3) % number]
    first = number - test
    content = {
        "x": csr_matrix(words[:9]),
        "tx": csr_matrix(words[first:]),
        "allx": csr_matrix(words[:first]),
        "y": labels[:9],
        "ty": labels[first:],
        "ally": labels[:first],
        "graph": graph,
    }
    for name, value in content.items():
        with (folder / f"ind.cora.{name}").open("wb") as file:
            pickle.dump(value, file)
    index = "\n".join(map(str, range(first, number)))
    (folder / "ind.cora.test.index").write_text(index + "\n")


def _page(title, text, number, link):
    body = "".join(f"<p>{text} in a way of its own, {number}.</p>" for _ in range(3))
    return (
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1>{body}"
        f"<p><img src='dot.png'>See <a href='{link}'>what is next</a>.</p></body>"
    )


def write_gimp_manual(data, number=12):
    """Two kinds of pages, each linked with the next of its kind."""
    folder = data / "gimp-help-en"
    folder.mkdir(parents=True)
    Image.new("RGB", (16, 16), "red").save(folder / "dot.png")
    (folder / "index.html").write_text(
        _page("Manual", "All of it", 0, "gimp-tool-0.html")
    )
    for kind, text in zip(("tool", "view"), TOPICS, strict=True):
        for i in range(number):
            link = f"gimp-{kind}-{(i + 1) % number}.html"
            page = _page(f"The {kind} {i}", text, i, link)
            (folder / f"gimp-{kind}-{i}.html").write_text(page)


def write_sqlite_site(data, number=6):
    """Pages in the topmost folder and in one below."""
    site = data / "site"
    (site / "c3ref").mkdir(parents=True)
    for i in range(number):
        link = f"{(i + 1) % number}.html"
        (site / f"{i}.html").write_text(_page("A page", TOPICS[0], i, link))
        (site / "c3ref" / f"{i}.html").write_text(_page("Other", TOPICS[1], i, link))
    (data / "sqlite_site").mkdir()
    with tarfile.open(data / "sqlite_site" / "sqlite_site.tar.xz", "w:xz") as archive:
        archive.add(site, ".")


def write_molecules(data):
    """Molecules of five scaffolds, in the files of BBBP and ESOL."""
    chains = ["C" * n + end for n in range(1, 9) for end in ("O", "N")]
    rings = ["c1ccccc1", "C1CC1", "C1CCCC1", "c1ccncc1"]
    smiles = [*chains, *rings]
    for name, file, rows in (
        (
            "bbbp",
            "BBBP.csv",
            ["num,name,p_np,smiles"]
            + [f"{i},m{i},{i % 2},{text}" for i, text in enumerate(smiles)],
        ),
        (
            "esol",
            "delaney-processed.csv",
            ["a,b,c,d,e,f,g,h,y,smiles"]
            + [f"m,0,0,0,0,0,0,0,{-i / 4},{text}" for i, text in enumerate(smiles)],
        ),
    ):
        folder = data / "molecules" / name / "raw"
        folder.mkdir(parents=True)
        (folder / file).write_text("\n".join(rows) + "\n")


def write_emoji(cache, number=40):
    """Flags of one colour and fruit of another, where the data set keeps them."""
    folder = cache / "emoji" / "raw"
    folder.mkdir(parents=True)
    sheet = np.zeros((34 * 7, 34 * 7, 4), np.uint8)
    emoji = []
    for i in range(number):
        row, column = divmod(i, 7)
        kind = i % 2
        cell = sheet[34 * row + 1 : 34 * row + 33, 34 * column + 1 : 34 * column + 33]
        cell[...] = (255 * kind, i, 0, 255)
        emoji.append(
            {
                "name": ("sweet", "waving")[kind],
                "unified": f"1F{i:03X}",
                "short_names": [f"one_{i}"],
                "category": ("Food", "Flags")[kind],
                "subcategory": ("fresh-fruit", "flag")[kind],
                "sheet_x": column,
                "sheet_y": row,
            }
        )
    (folder / "emoji.json").write_text(json.dumps(emoji))
    Image.fromarray(sheet).save(folder / "sheet_32.png")


def write_clip_art(data, number=10):
    """Animals and plants, with a title and a keyword each."""
    folder = data / "openclipart"
    for i in range(number):
        for kind, word in (("animals", "swims"), ("plants", "stands")):
            png, svg = (
                folder / end / kind / f"{word}{i}.{end}" for end in ("png", "svg")
            )
            png.parent.mkdir(parents=True, exist_ok=True)
            svg.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (16, 16), (i, 0, 9 * len(word))).save(png)
            svg.write_text(
                '<svg xmlns="http://www.w3.org/2000/svg"><metadata>'
                '<c:Work xmlns:c="http://web.resource.org/cc/" '
                'xmlns:dc="http://purl.org/dc/elements/1.1/">'
                f"<dc:title>It {word} {i}</dc:title></c:Work></metadata></svg>"
            )


def write_news(data, number=60):
    """Articles on wins and on soups, each with a picture, in one file."""
    folder = data / "n24news"
    (folder / "imgs").mkdir(parents=True)
    articles = []
    for i in range(number):
        section, word = (("Sports", "won"), ("Food", "soup"))[i % 2]
        articles.append(
            {
                "section": section,
                "headline": f"They {word}.",
                "abstract": f"A story of {word}.",
                "caption": f"The {word} in a picture.",
                "image_id": f"id-{i}",
                "body": f"First a {word}. Then another.\n\nAnd an end.",
            }
        )
        picture = Image.new("RGB", (32, 20), (i, 0, 9 * len(word)))
        picture.save(folder / "imgs" / f"id-{i}.jpg")
    (folder / "nytimes_dataset.json").write_text(json.dumps(articles))
