import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.vertex_settings import (
    VertexSettings,
    complete_settings,
)


def test_what_is_usual_is_filled_in_and_what_plays_no_part_is_cleared():
    cora = complete_settings(VertexSettings(task="cora"))
    assert (cora.local, cora.tree, cora.heads) == ("gcn", "leiden", 4)
    assert cora.links is cora.max_tokens is cora.batch_size is None
    assert complete_settings(VertexSettings(model="none")).heads is None
    assert complete_settings(VertexSettings(model="multihead")).tree is None
    page = complete_settings(VertexSettings("sqlite-site", "words", links="none"))
    assert page.local is page.link_layers is page.heads is page.images is None
    # The mean of the words has the budget of the others.
    assert page.epochs == complete_settings(VertexSettings("sqlite-site")).epochs == 60
    assert complete_settings(VertexSettings("sqlite-site", "words", links="gat")).heads
    assert complete_settings(page) == page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "pubmed"}, "no task 'pubmed'"),
        ({"model": "flat"}, "no model 'flat'"),
        ({"task": "sqlite-site", "model": "multihead"}, "no model 'multihead'"),
        ({"local": "gine"}, "no local 'gine'"),
        ({"tree": "oak"}, "no tree 'oak'"),
        ({"task": "sqlite-site", "links": "gcn"}, "no links 'gcn'"),
        ({"model": "none", "local": "none"}, "local=gcn"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"dropout": 1.0}, "dropout"),
        ({"task": "sqlite-site", "train_share": 0.8}, "train_share"),
        ({"channels": 10}, "4 heads do not divide 10"),
        ({"model": "performer", "channels": 4}, "4 heads leave one of 4"),
    ],
)
def test_wrong_settings_are_named(options, message):
    with pytest.raises(SettingsError, match=message):
        complete_settings(VertexSettings(**options))
