import sys

import pytest
from matplotlib.figure import Figure

from hsa_pyg.cli.curves import curve_look, plot_curves

ROWS = [
    {"epoch": 0, "seconds": 2.0, "train/loss": 0.7, "val/accuracy": 0.5},
    {"epoch": 1, "seconds": 3.0, "train/loss": 0.4, "val/accuracy": 0.8},
]


def test_curves_show_loss_by_epoch_and_accuracy_by_seconds(tmp_path, monkeypatch):
    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda self, *args, **kwargs: (drawn.append(self), save(self, *args, **kwargs)),
    )
    plot_curves({"one": ROWS, "two": ROWS[:1]}, tmp_path / "new" / "curves.png")
    assert (tmp_path / "new" / "curves.png").stat().st_size > 1000
    loss, accuracy = drawn[0].axes
    assert loss.lines[0].get_xydata().tolist() == [[1, 0.7], [2, 0.4]]
    assert accuracy.lines[0].get_xydata().tolist() == [[2, 0.5], [5, 0.8]]
    assert len(accuracy.lines) == 2


@pytest.mark.parametrize("number", [1, 3, 16])
def test_a_legend_lies_within_its_picture(tmp_path, monkeypatch, number):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **kw: drawn.append(self))
    titles = [f"a model, with settings that take some room, {i}" for i in range(number)]
    plot_curves(dict.fromkeys(titles, ROWS), tmp_path / "curves.png")
    figure = drawn[0]
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1
    # It has not driven the panels out.
    assert all(axes.get_window_extent().height > 150 for axes in figure.axes)


def test_twenty_curves_can_be_told_apart():
    looks = [tuple(curve_look(number).items()) for number in range(20)]
    assert len(set(looks)) == 20


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[train\]"'):
        plot_curves({"one": ROWS}, tmp_path / "curves.png")
