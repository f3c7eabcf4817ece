import hashlib
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import tokenizers
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg import NestedSignal
from hsa_pyg.converters import train_word_tokenizer
from hsa_pyg.datasets import MovieReviews
from hsa_pyg.datasets.movie_reviews import split_names

SPLITS = ("train", "val", "test")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("movie_reviews")


@pytest.fixture(scope="module")
def reviews(root):
    return MovieReviews(root, log=False)


@pytest.fixture
def small_zip(tmp_path):
    """An archive of 40 short reviews, so that processing takes no time."""
    path = tmp_path / "small.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for label, word in (("neg", "bad"), ("pos", "good")):
            for number in range(20):
                name = f"movie_reviews/{label}/cv{number * 50:03d}_{number}.txt"
                archive.writestr(name, f"a {word} film .\nnumber {number} .\n")
    return path


def test_two_thousand_reviews_half_of_them_positive(reviews):
    assert len(reviews) == 2000
    labels = [signal.y.item() for signal in reviews]
    assert labels == [0] * 1000 + [1] * 1000
    assert reviews.num_classes == 2
    assert reviews.classes == ("neg", "pos")


def test_every_word_of_a_review_is_a_token_that_its_span_points_at(reviews):
    for index in (0, 999, 1000, 1777):
        signal, text = reviews[index], reviews.text(index)
        signal.validate()
        spans = signal["token"].span.tolist()
        covered = "".join(text[start:stop] for start, stop in spans)
        assert covered == "".join(text.split())
        assert signal["sentence"].num_nodes == len(text.strip().splitlines())
        assert signal["paragraph"].num_nodes == 1
        known = [reviews.tokenizer.id_to_token(i) for i in signal["token"].x.tolist()]
        for token, (start, stop) in zip(known, spans, strict=True):
            assert token in (text[start:stop], "[UNK]")


def test_splits_are_stratified_and_together_all_reviews(reviews, root):
    documents = reviews.documents()
    assert [document.name for document in documents] == reviews.sources
    for split, size in zip(SPLITS, (1600, 200, 200), strict=True):
        labels = [one.label for one in documents if one.split == split]
        assert len(labels) == size
        assert sum(labels) == size // 2
    part = MovieReviews(root, "val", log=False)
    assert part.sources == [one.name for one in documents if one.split == "val"]
    assert [signal.source for signal in part] == part.sources
    assert part[7]["token"].x.equal(
        reviews[reviews.sources.index(part.sources[7])]["token"].x
    )


def test_split_is_fixed():
    names = [
        f"{label}/cv{i:03d}_{i}.txt" for label in ("neg", "pos") for i in range(30)
    ]
    parts = split_names(names)
    assert {part: len(parts[part]) for part in SPLITS} == {
        "train": 48,
        "val": 6,
        "test": 6,
    }
    # Known by name: a change here changes everyone's test set.
    assert sorted(parts["test"]) == [
        "neg/cv012_12.txt",
        "neg/cv016_16.txt",
        "neg/cv021_21.txt",
        "pos/cv013_13.txt",
        "pos/cv016_16.txt",
        "pos/cv024_24.txt",
    ]
    assert split_names(names[::-1]) == parts


def test_vocabulary_is_counted_on_the_training_split_alone(reviews):
    texts = [one.text for one in reviews.documents() if one.split == "train"]
    expected = train_word_tokenizer(texts, vocab_size=20_000, min_frequency=2)
    assert reviews.tokenizer.get_vocab() == expected.get_vocab()
    assert reviews.vocab_size == 20_000
    assert reviews._data["token"].x.max().item() == reviews.vocab_size - 1


def test_folds_are_the_hundreds_of_the_file_names(reviews):
    assert reviews.folds.bincount().tolist() == [200] * 10
    assert reviews.folds[:1000].equal(torch.arange(10).repeat_interleave(100))
    part = reviews[torch.arange(950, 1050)]
    assert part.folds.tolist() == [9] * 50 + [0] * 50
    assert part.sources[50].startswith("pos/cv000_")
    assert part.text(50) == reviews.text(1000)


def test_a_second_start_loads_what_the_first_has_stored(root, reviews, monkeypatch):
    monkeypatch.setattr(MovieReviews, "process", None)
    again = MovieReviews(root, log=False)
    for index in (0, 1234):
        assert again[index]["token"].x.equal(reviews[index]["token"].x)
        assert again[index]["token"].span.equal(reviews[index]["token"].span)
        assert again[index].source == reviews[index].source


def test_processed_files_load_without_running_code(reviews):
    stored = torch.load(reviews.processed_paths[0], weights_only=True)
    assert stored[2] is NestedSignal


def test_batches_of_the_stock_loader_hold_every_node(reviews):
    some = reviews[:6]
    batch = next(iter(DataLoader(some, batch_size=6, num_workers=0)))
    assert batch.num_graphs == 6
    assert batch.hierarchy.num_trees == 6
    assert batch.hierarchy.num_leaves == sum(s["token"].num_nodes for s in some)
    assert batch[4]["token"].x.equal(some[4]["token"].x)


def test_processing_is_deterministic(small_zip, tmp_path):
    first, second = (
        MovieReviews(tmp_path / name, raw_zip=small_zip, log=False) for name in "ab"
    )
    assert first.tokenizer.to_str() == second.tokenizer.to_str()
    for one, other in zip(first, second, strict=True):
        assert one["token"].x.equal(other["token"].x)


def test_truncated_reviews_are_stored_beside_the_whole_ones(small_zip, tmp_path):
    whole = MovieReviews(tmp_path, raw_zip=small_zip, log=False)
    short = MovieReviews(tmp_path, raw_zip=small_zip, max_tokens=5, log=False)
    assert [signal["token"].num_nodes for signal in whole] == [7] * 40
    assert [signal["token"].num_nodes for signal in short] == [5] * 40
    assert whole.tokenizer.to_str() == short.tokenizer.to_str()
    assert len(MovieReviews(tmp_path, log=False)[0]["token"].x) == 7


def test_a_given_tokenizer_is_kept_with_the_data(small_zip, tmp_path):
    own = train_word_tokenizer(["film"], min_frequency=1)
    reviews = MovieReviews(tmp_path, raw_zip=small_zip, tokenizer=own, log=False)
    assert reviews.vocab_size == 3
    assert reviews[0]["token"].x.tolist() == [1, 1, 2, 1, 1, 1, 1]
    assert isinstance(reviews.tokenizer, tokenizers.Tokenizer)
    assert MovieReviews(tmp_path, log=False).vocab_size > 3
    with pytest.raises(TypeError, match="function, which cannot be saved"):
        MovieReviews(tmp_path, tokenizer=lambda texts: [])


def test_filters_and_transforms_before_storing(small_zip, tmp_path):
    reviews = MovieReviews(
        tmp_path,
        "train",
        raw_zip=small_zip,
        pre_filter=is_positive,
        pre_transform=double_label,
        log=False,
    )
    assert len(reviews) == 16
    assert {signal.y.item() for signal in reviews} == {2}
    assert all(source.startswith("pos/") for source in reviews.sources)


def is_positive(signal):
    return signal.y.item() == 1


def double_label(signal):
    signal.y = 2 * signal.y
    return signal


def test_a_data_set_pickles(small_zip, tmp_path):
    reviews = MovieReviews(tmp_path, "val", raw_zip=small_zip, log=False)
    assert reviews.vocab_size > 0
    again = pickle.loads(pickle.dumps(reviews))
    assert again.sources == reviews.sources
    assert again[1]["token"].x.equal(reviews[1]["token"].x)


def test_progress_is_shown_unless_asked_not_to(small_zip, tmp_path, capsys):
    MovieReviews(tmp_path / "loud", raw_zip=small_zip)
    assert "40/40" in capsys.readouterr().err
    MovieReviews(tmp_path / "still", raw_zip=small_zip, log=False)
    assert "40/40" not in capsys.readouterr().err


def test_bad_arguments_are_named(small_zip, tmp_path):
    with pytest.raises(ValueError, match="split='dev' is not known"):
        MovieReviews(tmp_path, "dev")
    MovieReviews(tmp_path, raw_zip=small_zip, log=False)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("movie_reviews/pos/cv000_1.txt", "good")
    with pytest.raises(ValueError, match="is another file than raw_zip="):
        MovieReviews(tmp_path, raw_zip=other)
    with pytest.raises(ValueError, match=r"no file movie_reviews/neg/cv\*.txt"):
        MovieReviews(tmp_path / "new", raw_zip=other, log=False)


def test_a_missing_archive_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("hsa_pyg.datasets.shipped.__file__", str(tmp_path / "a/b/c.py"))
    with pytest.raises(FileNotFoundError, match="Pass raw_zip=: the repository"):
        MovieReviews(tmp_path, log=False)


@pytest.mark.parametrize(
    "place",
    [
        "hsa_pyg/datasets/_shipped/movie_reviews/movie_reviews.zip",
        "datasets/movie_reviews/movie_reviews.zip",
    ],
)
def test_the_archive_is_found_in_a_wheel_and_in_a_checkout(
    place, small_zip, tmp_path, monkeypatch
):
    shipped = tmp_path / place
    shipped.parent.mkdir(parents=True)
    shutil.copyfile(small_zip, shipped)
    monkeypatch.setattr(
        "hsa_pyg.datasets.shipped.__file__",
        str(tmp_path / "hsa_pyg/datasets/shipped.py"),
    )
    assert len(MovieReviews(tmp_path / "root", log=False)) == 40


def test_the_shipped_archive_is_the_one_its_notice_names():
    folder = Path(__file__).parents[2] / "datasets" / "movie_reviews"
    digest = hashlib.sha256((folder / "movie_reviews.zip").read_bytes()).hexdigest()
    notice = (folder / "NOTICE.md").read_text()
    assert digest in notice
    assert "CC BY 4.0" in notice


@pytest.mark.parametrize("kept", [0, 800])
def test_a_broken_archive_is_named_and_does_not_stay_behind(kept, small_zip, tmp_path):
    broken = tmp_path / "broken.zip"
    broken.write_bytes(small_zip.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"broken.zip' is no zip archive, or a part"):
        MovieReviews(tmp_path / "root", raw_zip=broken, log=False)
    reviews = MovieReviews(tmp_path / "root", raw_zip=small_zip, log=False)
    assert len(reviews) == 40
    assert [path.name for path in (tmp_path / "root/raw").iterdir()] == [
        "movie_reviews.zip"
    ]


def test_a_broken_review_in_an_archive_is_named(small_zip, tmp_path):
    reviews = MovieReviews(tmp_path / "root", "val", raw_zip=small_zip, log=False)
    path = tmp_path / "root/raw/movie_reviews.zip"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a bad film", b"a mad film"))
    with pytest.raises(ValueError, match=r"is no zip archive, or a part.*CRC"):
        reviews.raw_texts()
    path.write_bytes(content[:-30])
    with pytest.raises(ValueError, match="is no zip archive, or a part of one"):
        MovieReviews(tmp_path / "root", "val", log=False, force_reload=True)


def test_only_the_reviews_of_an_archive_are_read(small_zip, tmp_path):
    with zipfile.ZipFile(small_zip, "a") as archive:
        for name in (
            "../../../neg/cv900_1.txt",
            "/neg/cv900_1.txt",
            "__MACOSX/movie_reviews/neg/._cv000_0.txt",
            "movie_reviews/neg/readme.txt",
            "movie_reviews/neutral/cv900_1.txt",
        ):
            archive.writestr(name, "no review")
    reviews = MovieReviews(tmp_path / "root", raw_zip=small_zip, log=False)
    assert len(reviews) == 40
    assert len(reviews.folds) == 40


def test_reviews_of_another_folder_are_not_taken_for_them(small_zip, tmp_path):
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(small_zip) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(f"copy/{name}", old.read(name))
    with pytest.raises(ValueError, match=r"no file movie_reviews/neg/cv\*.txt"):
        MovieReviews(tmp_path / "root", raw_zip=other, log=False)


def test_no_token_at_all_is_not_taken_for_all_of_them(small_zip, tmp_path):
    MovieReviews(tmp_path / "root", raw_zip=small_zip, log=False)
    with pytest.raises(ValueError, match="max_tokens must be positive, but is 0"):
        MovieReviews(tmp_path / "root", max_tokens=0, log=False)
