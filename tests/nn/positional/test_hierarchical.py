import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.data import NestedSignal
from hsa_pyg.nn import (
    GraphPosition,
    HierarchicalPosition,
    HSAConv,
    KeyValuePosition,
    SequencePosition,
)


@pytest.fixture
def site() -> NestedSignal:
    """A site (graph) of 3 pages (key-value) of 2 titles and 2 bodies of 5 words."""
    signal = NestedSignal()
    signal["site"].num_nodes = 1
    signal["page"].num_nodes = 3
    signal["title"].x = torch.randn(2, 4)
    signal["title"].key = torch.tensor([0, 0])
    signal["body"].num_nodes = 2
    signal["body"].key = torch.tensor([1, 1])
    signal["word"].x = torch.randn(5, 4)
    signal["word"].pos = torch.tensor([[0.0], [1.0], [2.0], [0.0], [1.0]])
    for child, parent, row in (
        ("page", "site", [0, 0, 0]),
        ("title", "page", [0, 1]),
        ("body", "page", [0, 2]),
        ("word", "body", [0, 0, 0, 1, 1]),
    ):
        signal[child, "child_of", parent].edge_index = torch.tensor(
            [list(range(len(row))), row]
        )
    signal["page", "links_to", "page"].edge_index = torch.tensor([[0, 1], [1, 0]])
    return signal


def domains() -> dict[str, object]:
    return {
        "site": GraphPosition(8, num_features=4),
        "page": KeyValuePosition(2, 8),
        "body": SequencePosition(8, kind="fourier"),
    }


def test_each_child_has_its_parents_domain(site):
    position = HierarchicalPosition(domains(), 8)
    eps, domain = position(site, site.hierarchy)
    at = {name: slice(*ids) for name, ids in site.hierarchy.node_slices.items()}
    graph, keys, sequence = position.domains.values()
    assert torch.equal(eps[at["site"]], torch.zeros(1, 8))
    pages = graph(torch.tensor([[0, 1], [1, 0]]), torch.zeros(3).long())
    torch.testing.assert_close(eps[at["page"]], pages)
    assert not torch.allclose(pages[0], pages[2])
    torch.testing.assert_close(eps[at["title"]], keys(torch.tensor([0, 0])))
    torch.testing.assert_close(eps[at["body"]], keys(torch.tensor([1, 1])))
    torch.testing.assert_close(eps[at["word"]], sequence(site["word"].pos))
    assert domain[at["page"]].tolist() == [0, 0, 0]
    assert domain[at["title"]].tolist() == domain[at["body"]].tolist() == [1, 1]
    assert domain[at["word"]].tolist() == [2] * 5


def test_members_of_sets_have_none_and_others_are_unchanged(site):
    position = HierarchicalPosition({**domains(), "body": "set"}, 8)
    eps, _ = position(site, site.hierarchy)
    start, stop = site.hierarchy.node_slices["word"]
    assert torch.equal(eps[start:stop], torch.zeros(5, 8))
    assert eps[site.hierarchy.node_slices["title"][0]].abs().sum() > 0


def test_gradients_reach_every_domain_through_the_layer(site):
    position = HierarchicalPosition(domains(), 8)
    conv = HSAConv(4, 8, heads=2, position_dim=8, num_domains=position.num_domains)
    eps, domain = position(site, site.hierarchy)
    out = conv(site.x_dict, site.hierarchy, position=eps, domain=domain)
    (out["word"] * torch.randn(5, 8)).sum().backward()
    for name, parameter in [*position.named_parameters(), *conv.named_parameters()]:
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name
    assert (conv.lin_position.weight.grad.flatten(1).abs().sum(1) > 0).all()


def test_double_precision_throughout(site):
    position = HierarchicalPosition(domains(), 8).double()
    assert position(site, site.hierarchy)[0].dtype == torch.double
    none = HierarchicalPosition(dict.fromkeys(("site", "page", "body"), "set"), 8)
    assert none.double()(site, site.hierarchy)[0].dtype == torch.double


def test_names_and_modules_of_domains(site):
    position = HierarchicalPosition({"a": "sequence", "b": "grid", "c": "set"}, 8)
    assert str(position) == (
        "HierarchicalPosition(8, a=SequencePosition(8, kind='sinusoidal'), "
        "b=GridPosition(8, kind='fourier'), c=SetPosition(8))"
    )
    with pytest.raises(ValueError, match=r"domain of 'a' must be one of .* got 'line'"):
        HierarchicalPosition({"a": "line"}, 8)
    with pytest.raises(ValueError, match="domain of 'a' has 4 channels instead of 8"):
        HierarchicalPosition({"a": SequencePosition(4)}, 8)


def test_equal_coordinates_share_a_row(site):
    position = HierarchicalPosition(domains(), 8)
    eps, domain, index = position.distinct(site, site.hierarchy)
    # None, three pages, four keys, and words at the places 0, 1 and 2.
    assert eps.shape == (1 + 3 + 4 + 3, 8)
    assert index.shape == (site.hierarchy.num_nodes,)
    whole, of_node = position(site, site.hierarchy)
    torch.testing.assert_close(eps[index], whole)
    assert torch.equal(domain[index], of_node)
    start, stop = site.hierarchy.node_slices["word"]
    first, *_, again, last = index[start:stop].tolist()
    assert first == again != last
    assert index[site.hierarchy.roots].tolist() == [0]


def test_equal_places_of_a_grid_share_a_row():
    patches = NestedSignal()
    patches["image"].num_nodes = 2
    places = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    patches["patch"].x, patches["patch"].pos = torch.randn(5, 4), places
    patches["patch", "child_of", "image"].edge_index = torch.tensor(
        [[0, 1, 2, 3, 4], [0, 0, 1, 1, 1]]
    )
    position = HierarchicalPosition({"image": "grid"}, 8)
    eps, _, index = position.distinct(patches, patches.hierarchy)
    assert eps.size(0) == 1 + 3
    start, stop = patches.hierarchy.node_slices["patch"]
    torch.testing.assert_close(
        eps[index][start:stop], position.domains["image"](places)
    )


def test_coordinates_with_a_gradient_keep_their_rows(site):
    site["word"].pos.requires_grad_()
    position = HierarchicalPosition(domains(), 8)
    eps, _, index = position.distinct(site, site.hierarchy)
    assert eps.size(0) == 1 + 3 + 4 + 5
    (eps[index] * torch.randn(site.hierarchy.num_nodes, 8)).sum().backward()
    assert (site["word"].pos.grad != 0).all()


def test_the_layer_maps_distinct_rows_to_the_same_output_and_gradients(site):
    position = HierarchicalPosition(domains(), 8).double()
    conv = HSAConv(4, 8, heads=2, position_dim=8, num_domains=3).double()
    x_dict = {name: x.double() for name, x in site.x_dict.items()}
    given = [*position.parameters(), *conv.parameters()]
    results = []
    for places in (
        dict(zip(("position", "domain"), position(site, site.hierarchy), strict=True)),
        dict(
            zip(
                ("position", "domain", "position_index"),
                position.distinct(site, site.hierarchy),
                strict=True,
            )
        ),
    ):
        out = torch.cat([*conv(x_dict, site.hierarchy, **places).values()])
        loss = (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum()
        results.append([out, *torch.autograd.grad(loss, given)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


class Clock(torch.nn.Module):
    """A position of one's own: the hour of a day."""

    def __init__(self, wide):
        super().__init__()
        self.channels, self.wide = 2, wide

    def forward(self, pos):
        angle = pos * torch.pi / 12
        return torch.cat([angle.cos(), angle.sin(), angle], dim=1)[:, : self.wide]


def test_a_module_of_ones_own_is_a_domain(site):
    site["word"].pos = torch.tensor([[0.0], [6.0], [12.0], [18.0], [24.0]])
    others = {"site": "set", "page": "set"}
    eps, _ = HierarchicalPosition({**others, "body": Clock(2)}, 2)(site, site.hierarchy)
    first, end = site.hierarchy.node_slices["word"]
    expected = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
    torch.testing.assert_close(eps[first:end], expected, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match=r"'body' gave .*\(5, 3\) instead of \(5, 2\)"):
        HierarchicalPosition({**others, "body": Clock(3)}, 2)(site, site.hierarchy)
    with pytest.raises(ValueError, match="'body' has no attribute 'channels'; set it"):
        HierarchicalPosition({"body": torch.nn.Linear(1, 2)}, 2)


def test_what_is_missing_is_named(site):
    with pytest.raises(ValueError, match="internal type 'page' has no domain among"):
        HierarchicalPosition({"site": "set", "body": "set"}, 8)(site, site.hierarchy)
    del site["word"].pos
    with pytest.raises(ValueError, match="type 'word' have no 'pos', which the domain"):
        HierarchicalPosition(domains(), 8)(site, site.hierarchy)
    del site["title"].key
    with pytest.raises(ValueError, match="type 'title' have no 'key'"):
        HierarchicalPosition(domains(), 8)(site, site.hierarchy)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_edge_between_siblings_that_names_a_node_of_another_type(site, wrong):
    """Node 3 of the pages would be node 0 of the titles."""
    edge = torch.tensor([[0, 1], [1, wrong]])
    site["page", "links_to", "page"].edge_index = edge
    with pytest.raises(
        IndexError, match=f"edge 1 .* names node {wrong} of type 'page'"
    ):
        HierarchicalPosition(domains(), 8)(site, site.hierarchy)


def test_rows_that_do_not_fit_are_named(site):
    site["word"].pos = site["word"].pos[:4]
    with pytest.raises(
        ValueError, match=r"'pos' of type 'word' .* 5 nodes, got .*4, 1"
    ):
        HierarchicalPosition(domains(), 8)(site, site.hierarchy)


def test_the_hierarchy_of_another_signal_is_refused(site):
    position = HierarchicalPosition({**domains(), "body": "set"}, 8)
    other = site.clone()
    other["word"].x = torch.randn(6, 4)
    with pytest.raises(ValueError, match=r"that of another signal.*'word': 6"):
        position(site, other.hierarchy)
    untyped = SignalHierarchy.from_parents(site.hierarchy.parent)
    with pytest.raises(ValueError, match="that of another signal"):
        position(site, untyped)


@pytest.mark.parametrize(
    ("pos", "domain", "message"),
    [
        (
            torch.arange(5.0),
            "sequence",
            r"\[num_nodes, 1\] for SequencePosition, .* type 'body', got \(5,\); use "
            r"signal\['word'\]\.pos\[:, None\]$",
        ),
        (
            torch.arange(5.0)[:, None],
            "grid",
            r"'pos' of type 'word' must have shape \[num_nodes, 2\] for GridPosition, "
            r"the domain of its parent type 'body', got \(5, 1\); so many "
            r"columns are those of {'body': 'sequence'}$",
        ),
        (
            torch.rand(5, 2),
            "sequence",
            r"SequencePosition.*got \(5, 2\); so .* those of {'body': 'grid'}$",
        ),
        (torch.rand(5, 3), "sequence", r"SequencePosition.*'body', got \(5, 3\)$"),
    ],
)
def test_coordinates_of_another_shape_name_type_and_domain(site, pos, domain, message):
    site["word"].pos = pos
    with pytest.raises(ValueError, match=message):
        HierarchicalPosition({**domains(), "body": domain}, 8)(site, site.hierarchy)


def test_whole_coordinates_are_taken_as_floats(site):
    position = HierarchicalPosition(domains(), 8)
    expected, _ = position(site, site.hierarchy)
    site["word"].pos = site["word"].pos.long()
    torch.testing.assert_close(position(site, site.hierarchy)[0], expected)


@pytest.mark.parametrize(("kind", "node", "wrong"), [("title", 1, 2), ("body", 0, -1)])
def test_a_key_that_the_domain_lacks_names_its_node(site, kind, node, wrong):
    site[kind].key[node] = wrong
    message = (
        f"'key' of node {node} of type '{kind}' is {wrong}, but the domain of its "
        "parent type 'page' has the keys 0 to 1; correct it, or raise num_keys"
    )
    with pytest.raises(IndexError, match=message):
        HierarchicalPosition(domains(), 8)(site, site.hierarchy)
