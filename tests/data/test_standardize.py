import copy
import warnings

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.converters import concat, from_nested
from hsa_pyg.data import NestedSignal, Standardize
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HSATransformer


def signal(obj):
    return from_nested(obj)


def columns(*rows):
    out = NestedSignal()
    out["row"].num_nodes = 1
    out["cell"].x = torch.tensor(rows)
    edge_index = torch.tensor([list(range(len(rows))), [0] * len(rows)])
    out["cell", "child_of", "row"].edge_index = edge_index
    return out


def numbers(one):
    return one["number"].x.view(-1).tolist()


def test_each_column_gets_mean_0_and_deviation_1():
    signals = [columns([1e6, 2.0], [1e6 + 8, 4.0]), columns([1e6 + 4, 9.0])]
    scale = Standardize("cell").fit(signals)
    x = torch.cat([scale(one)["cell"].x for one in signals])
    torch.testing.assert_close(x.mean(0), torch.zeros(2))
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(2))
    # What was given stays as it is, as does all else of a signal.
    assert signals[0]["cell"].x[0].tolist() == [1e6, 2.0]
    assert scale(signals[0]).hierarchy.num_leaves == 2


def test_each_key_has_its_own_mean():
    signals = [
        signal({"year": year, "of": {"price": price}})
        for year, price in ((1990, 1.0), (2000, 3.0), (2010, 2.0))
    ]
    scale = Standardize("number", by="key_name").fit(signals)
    expected = [[-(1.5**0.5), -(1.5**0.5)], [0.0, 1.5**0.5], [1.5**0.5, 0.0]]
    for one, values in zip(signals, expected, strict=True):
        assert numbers(scale(one)) == pytest.approx(values)
    by_id = Standardize("number", by="key").fit(signals)
    assert numbers(by_id(signals[0])) == numbers(scale(signals[0]))
    # An id is an id, also 0, as concat numbers the first of its parts.
    for one in signals:
        one["number"].key = torch.tensor([0, 1])
    by_id = Standardize("number", by="key").fit(signals)
    assert numbers(by_id(signals[0])) == numbers(scale(signals[0]))
    together = Standardize("number").fit(signals)
    assert numbers(together(signals[0]))[0] > 0.9


def test_a_number_in_a_list_is_of_the_kind_of_the_key_above():
    signals = [signal({"wind": [[1, 2], 3], "sun": [100, 300]})]
    scale = Standardize("number", by="key_name").fit(signals)
    wind = 1.5**0.5
    assert numbers(scale(signals[0])) == pytest.approx([-wind, 0, wind, -1, 1])
    # Without any key above there is one kind.
    bare = [signal([1, 3])]
    assert numbers(Standardize("number", by="key_name").fit(bare)(bare[0])) == [-1, 1]


def test_what_never_changes_becomes_0():
    signals = [signal({"a": 7.3, "b": b}) for b in (1, 2)]
    scale = Standardize("number", by="key_name").fit(signals)
    assert numbers(scale(signals[0])) == [0.0, -1.0]
    assert numbers(scale(signal({"a": 8.3, "b": 1}))) == pytest.approx([1.0, -1.0])


def test_a_mean_that_is_rounded_makes_no_difference():
    wide = columns([0.1])
    wide["cell"].x = torch.full((1001, 1), 0.1, dtype=torch.double)
    row = torch.arange(1001)
    wide["cell", "child_of", "row"].edge_index = torch.stack([row, row * 0])
    assert not Standardize("cell").fit([wide])(wide)["cell"].x.any()
    scale = Standardize("cell").fit([columns(*[[0.1]] * 7)])
    assert scale(columns([0.1]))["cell"].x == 0
    assert float(scale(columns([1.1]))["cell"].x) == pytest.approx(1.0)
    # What float32 tells apart is told apart.
    far = [columns([1e9]), columns([1e9 + 64])]
    assert Standardize("cell").fit(far)(far[1])["cell"].x == 1.0


def test_what_is_not_finite_takes_no_part():
    with pytest.warns(UserWarning, match="not finite in float32"):
        odd = signal({"a": [float("nan"), float("inf"), -float("inf")]})
    signals = [signal({"a": [0, 10, 20, 40]}), odd]
    scale = Standardize("number", by="key_name").fit(signals)
    plain = numbers(scale(signals[0]))
    assert sum(plain) == pytest.approx(0, abs=1e-6)
    assert numbers(scale(odd)) == [0.0, plain[3], plain[0]]


def test_a_kind_without_a_number_is_as_one_that_was_not_seen():
    with pytest.warns(UserWarning, match="not finite"):
        odd = signal({"a": float("nan"), "b": 1.0})
    scale = Standardize("number", by="key_name").fit([odd, signal({"b": 3.0})])
    with pytest.warns(UserWarning, match=r"key_name \['a'\], which were not"):
        assert numbers(scale(signal({"a": 1990.0, "b": 3.0}))) == [0.0, 1.0]


def test_a_number_deep_down_is_found_at_once():
    nested = 1.0
    for _ in range(5_000):
        nested = [nested]
    one = signal({"a": nested, "b": [3.0]})
    scale = Standardize("number", by="key_name").fit([one, signal({"a": 2.0})])
    assert sorted(numbers(scale(one))) == [-1.0, 0.0]


def test_a_kind_that_was_not_seen_becomes_0_with_a_warning():
    scale = Standardize("number", by="key_name").fit([signal({"a": [1, 3]})])
    with pytest.warns(UserWarning, match=r"key_name \['b'\], which were not among"):
        out = scale(signal({"a": 3, "b": 1e9}))
    assert numbers(out) == [1.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scale(signal({"a": 2}))


def test_an_empty_signal_stays_empty():
    scale = Standardize("number", by="key_name").fit([signal({"a": [1, 3]})])
    assert scale(signal({"a": []}))["number"].x.shape == (0, 1)


def test_a_fitted_transform_is_saved(tmp_path):
    one = signal({"a": [1, 3]})
    scale = Standardize("number", by="key_name").fit([one])
    torch.save(scale, tmp_path / "scale.pt")
    loaded = torch.load(tmp_path / "scale.pt", weights_only=True)
    assert numbers(loaded(one)) == numbers(scale(one)) == [-1.0, 1.0]
    assert repr(loaded) == "Standardize('number', by='key_name')"
    assert repr(Standardize("cell")) == "Standardize('cell')"


def test_years_are_learned_from_once_they_have_a_scale():
    torch.manual_seed(0)
    years = torch.randint(1900, 2000, (64,)).tolist()
    signals = [concat({"of": signal({"year": y})}, y=int(y > 1950)) for y in years]
    scale = Standardize("number", by="key_name").fit(signals)

    def accuracy(signals):
        torch.manual_seed(0)
        model = HSATransformer.from_schema(
            signals[0].schema,
            out_channels=2,
            vocab_sizes={"token": 8, "constant": 3},
            channels=16,
            dropout=0.0,
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        (batch,) = DataLoader(signals, batch_size=64)
        for _ in range(60):
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return float((model(batch).argmax(1) == batch.y).float().mean())

    assert accuracy([scale(one) for one in signals]) > 0.95
    assert accuracy(signals) < 0.8


def unfitted():
    Standardize("number")(signal([1.0]))


def no_signal():
    Standardize("number").fit([torch.ones(3, 1)])


def a_batch():
    Standardize("number").fit([Batch.from_data_list([signal([1])] * 2)])


def another_type():
    Standardize("cell").fit([signal([1.0])])


def ids():
    Standardize("constant").fit([signal([True])])


def another_attribute():
    Standardize("number", by="name").fit([signal([1.0])])


def nothing_to_fit_to():
    Standardize("number").fit([signal(["a"])])


def other_columns():
    Standardize("cell").fit([columns([1.0, 2.0])])(columns([1.0]))


def one_signal():
    Standardize("number").fit(signal([1.0]))


def other_columns_in_fitting():
    Standardize("cell").fit([columns([1.0, 2.0]), columns([1.0])])


def no_number():
    Standardize("cell").fit([columns([1.0], [float("nan")])])


def a_short_list():
    one = signal([1.0, 2.0])
    one["number"].key_name = ["a"]
    Standardize("number", by="key_name").fit([one])


def a_table_of_kinds():
    one = signal([1.0, 2.0])
    one["number"].key = torch.zeros(2, 1)
    Standardize("number", by="key").fit([one])


def clipped_of_another_shape():
    one = signal([1.0, 2.0])
    one["number"].clipped = torch.zeros(2, 1)
    Standardize("number").fit([one])


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (unfitted, ValueError, r"knows no mean yet: call \.fit\(signals\)"),
        (no_signal, TypeError, "takes a NestedSignal, got Tensor"),
        (a_batch, TypeError, r"batch\.to_data_list\(\)"),
        (another_type, ValueError, r"no type 'cell'; its leaf types are \["),
        (ids, ValueError, r"'constant' must be floats \[n, F\], got torch.int64 \[1\]"),
        (another_attribute, ValueError, r"no attribute 'name', by which"),
        (nothing_to_fit_to, ValueError, "no leaf of type 'number' with a finite x"),
        (other_columns, ValueError, "has 1 columns, but 2 in the signals"),
        (one_signal, TypeError, "got a NestedSignal; put it into a list"),
        (other_columns_in_fitting, ValueError, "has 1 columns in one signal and 2 in"),
        (no_number, ValueError, "'x' of node 1 of type 'cell' holds nan or inf"),
        (a_short_list, ValueError, "'key_name' of type 'number' has 1 entries for 2"),
        (a_table_of_kinds, ValueError, r"must have shape \[2\], got \[2, 1\]"),
        (clipped_of_another_shape, ValueError, r"of each of 2 leaves .* got \[2, 1\]"),
    ],
)
def test_mistakes_are_named(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake()


def test_a_copy_is_of_its_own():
    one = columns([1.0], [3.0])
    scale = Standardize("cell").fit([one])
    other = copy.deepcopy(scale).fit([columns([0.0], [10.0])])
    assert scale(one)["cell"].x.view(-1).tolist() == [-1.0, 1.0]
    assert other(one)["cell"].x.view(-1).tolist() == pytest.approx([-0.8, -0.4])
