"""Messages to newcomers name the thing and the remedy.

``docs/troubleshooting.md`` quotes them: what it quotes is really raised.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from hsa_pyg import NestedSignal
from hsa_pyg.data import union_schema
from hsa_pyg.nn import HSATransformer
from tests.mistakes import MISTAKES, TREE, conv, document, first, illustrated, model

PAGE = Path(__file__).parents[1] / "docs" / "troubleshooting.md"


def message(name):
    function, _ = MISTAKES[name]
    with pytest.raises(Exception) as caught:
        function()
    # The whole of it on one line, with the class before it.
    text = " ".join(str(caught.value).split())
    return f"{type(caught.value).__name__}: {text}"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_names_the_thing_and_the_remedy(name):
    raised = message(name)
    for part in MISTAKES[name][1]:
        assert part in raised


def test_a_file_read_without_the_library_is_refused_and_read_with_it(tmp_path):
    torch.save(document(), tmp_path / "signal.pt")
    read = f"import torch; print(torch.load({str(tmp_path / 'signal.pt')!r}))"

    def run(code):
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True
        )

    assert "Unsupported global: GLOBAL hsa_pyg" in run(read).stderr
    assert "Unsupported global: GLOBAL hsa_pyg" in page_text()
    assert "word: 6 leaves in sentence" in run(f"import hsa_pyg; {read}").stdout


def test_a_hierarchy_is_saved_by_itself_and_a_batch_by_its_samples(tmp_path):
    batch = first([document(), document()])
    torch.save(batch.hierarchy, tmp_path / "hierarchy.pt")
    loaded = torch.load(tmp_path / "hierarchy.pt", weights_only=True)
    assert torch.equal(loaded.parent, batch.hierarchy.parent)
    x = torch.ones(12, 8)
    layer = conv()
    assert torch.equal(layer(x, loaded), layer(x, batch.hierarchy))
    torch.save(batch, tmp_path / "batch.pt")
    with pytest.raises(Exception, match="DynamicInheritanceGetter"):
        torch.load(tmp_path / "batch.pt", weights_only=True)
    torch.save(batch.to_data_list(), tmp_path / "samples.pt")
    assert len(torch.load(tmp_path / "samples.pt", weights_only=True)) == 2


def test_flat_attributes_are_no_signal():
    with pytest.raises(TypeError, match=r"'x' holds a Tensor.*from_graph\(data\)"):
        NestedSignal.from_dict(Data(x=torch.ones(2, 1)).to_dict())


def test_a_compiled_layer_takes_a_hierarchy_that_was_built_before():
    layer = conv()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    x = torch.ones(5, 8)
    torch.testing.assert_close(compiled(x, TREE), layer(x, TREE))


def test_rows_in_another_order_than_the_leaves_raise_nothing():
    """As the page says: only the shapes can be compared."""
    layer, x = conv(), torch.arange(40.0).view(5, 8) / 40
    order = torch.tensor([3, 4, 0, 1, 2])
    scrambled = layer(x[order], TREE)
    assert not torch.allclose(scrambled, layer(x, TREE)[order])


def test_nan_in_one_tree_leaves_the_others_alone():
    good = document()
    bad = document()
    bad["word"].x[1, 2] = float("nan")
    out = model().eval()(first([bad, good]))
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def test_the_schema_of_all_signals_makes_a_model_of_all():
    signals = [document(), illustrated()]
    everything = HSATransformer.from_schema(union_schema(signals), 2)
    assert everything(first(signals)).shape == (2, 2)


def test_hetero_data_becomes_a_signal_as_the_message_says():
    plain = HeteroData(document().to_dict())
    signal = NestedSignal.from_dict(plain.to_dict())
    assert model()(first([signal, signal])).shape == (2, 2)


def page_text():
    return " ".join(PAGE.read_text().split())


def quoted():
    """The messages in the page, by the name of the mistake that raises them."""
    block = re.compile(r"^<!-- (\w+) -->\n+```text\n(.*?)```", re.DOTALL | re.MULTILINE)
    found = block.findall(PAGE.read_text())
    return {name: " ".join(text.split()) for name, text in found}


def test_the_page_quotes_every_mistake():
    assert set(quoted()) == set(MISTAKES)
    assert PAGE.read_text().count("```text") == len(MISTAKES) + 1


@pytest.mark.parametrize("name", MISTAKES)
def test_what_the_page_quotes_is_what_is_raised(name):
    raised = message(name)
    # What is left out is torch's own.
    at = 0
    for part in quoted()[name].split(" [...]"):
        at = raised.find(part.strip(), at)
        assert at >= 0, (part, raised)
