import math

import pytest

from hsa_pyg.experiments.learning.contrast_plot import plot_contrasts
from hsa_pyg.experiments.learning.contrasts import Contrast
from hsa_pyg.experiments.page import Comparison


def contrast(title, mean, error=0.1, seconds=0.5):
    seeds = 1 if math.isnan(error) else 2
    change = Comparison(mean, error, seeds)
    return Contrast(title, "accuracy", 0.8, 0.7, change, 0.1, seconds)


def test_a_row_for_each_contrast_and_the_same_file_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    few = [contrast("one", -0.3), contrast("two", 0.1, math.nan, seconds=None)]
    for name in ("a.svg", "b.png", "c.png"):
        plot_contrasts(few, tmp_path / "new" / name)
    assert (tmp_path / "new" / "a.svg").stat().st_size > 0
    pictures = [(tmp_path / "new" / name).read_bytes() for name in ("b.png", "c.png")]
    assert pictures[0] == pictures[1]
    plot_contrasts([*few, contrast("three", 0.2)], tmp_path / "more.png")
    assert _height(tmp_path / "more.png") > _height(tmp_path / "new" / "b.png")


def _height(path):
    # In the header of a PNG file.
    return int.from_bytes(path.read_bytes()[20:24], "big")
