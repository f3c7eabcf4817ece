from pathlib import Path

import numpy as np
import pytest
import torch

from hsa_pyg.converters.labels import label_tensor, labels_of_files


def test_numbers_become_vectors_of_one_and_keep_their_kind():
    assert torch.equal(label_tensor(3), torch.tensor([3]))
    assert torch.equal(label_tensor(0.5), torch.tensor([0.5]))
    assert torch.equal(label_tensor(np.int64(3)), torch.tensor([3]))
    assert label_tensor(np.float32(0.5)).dtype == torch.float


def test_tensors_stay_as_they_are():
    y = torch.tensor([[1, 2]])
    assert label_tensor(y) is y


def test_what_is_neither_is_named_with_its_sample():
    with pytest.raises(TypeError, match=r"^The label y is 'good': give a number"):
        label_tensor("good")
    with pytest.raises(TypeError, match=r"^The label y of document 'a' is \[1\]: give"):
        label_tensor([1], "document 'a'")


PATHS = [Path("b/x.txt"), Path("a/y.txt"), Path("c/z.txt"), Path("top/b/w.txt")]


def test_folders_are_numbered_by_their_sorted_names():
    label_of = labels_of_files("folder", PATHS)
    assert [label_of(path) for path in PATHS] == [1, 0, 2, 1]


def test_files_have_no_label_or_that_of_a_callable():
    assert labels_of_files(None, PATHS)(PATHS[0]) is None
    assert labels_of_files(lambda path: len(path.parts), PATHS)(PATHS[3]) == 3
    with pytest.raises(ValueError, match="labels='name' is not known: use 'folder'"):
        labels_of_files("name", PATHS)
