"""Layers of other libraries: what we compare with is what we say it is."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import peer_layers, peers
from benchmarks.trees import Tree
from tests.test_benchmarks import QUICK, check_section


class TestPeers:
    """Layers of other libraries; those that are not of PyG are an extra."""

    hierarchy = Tree(64).hierarchy()

    @pytest.mark.parametrize("name", peers.SECTIONS)
    def test_a_section_gives_a_table(self, name):
        for module in peer_layers.EXTRA_MODULES:
            pytest.importorskip(module)
        check_section(peers.SECTIONS[name](QUICK))

    def test_blocks_have_the_same_frame(self):
        theirs = peer_layers.gps("multihead")
        ours = peer_layers.HSAInGPS("torch")
        mine = {n: p.shape for n, p in ours.named_parameters() if "conv" not in n}
        frame = {n: p.shape for n, p in theirs.named_parameters() if "attn" not in n}
        # Without a local layer, GPSConv's first norm has no use.
        assert mine == {n: s for n, s in frame.items() if not n.startswith("norm1")}
        count = sum(p.numel() for p in ours.conv.parameters())
        assert count == sum(p.numel() for p in theirs.attn.parameters())

    def test_on_a_flat_tree_our_block_is_the_multihead_one(self):
        theirs = peer_layers.gps("multihead")
        ours = peer_layers.HSAInGPS("torch")
        for name in ("norm2", "norm3", "mlp"):
            getattr(ours, name).load_state_dict(getattr(theirs, name).state_dict())
        attention = theirs.attn
        with torch.no_grad():
            linear = ours.conv.lin_qkv.shared
            linear.weight.copy_(attention.in_proj_weight)
            linear.bias.copy_(attention.in_proj_bias)
            ours.conv.lin_out.load_state_dict(attention.out_proj.state_dict())
            x, flat = torch.randn(40, peer_layers.WIDTH), Tree(40, 40, 40).hierarchy()
            expected = theirs(x, peer_layers.NO_EDGES)
            torch.testing.assert_close(ours(x, flat), expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("attention", ["multihead", "performer"])
    def test_gps_gives_finite_rows(self, attention):
        out = peer_layers.gps(attention)(
            torch.randn(64, peer_layers.WIDTH), peer_layers.NO_EDGES
        )
        assert out.shape == (64, peer_layers.WIDTH)
        assert torch.isfinite(out).all()

    def test_the_block_without_attention_keeps_its_projections(self):
        bare, ours = peer_layers.HSAInGPS(None), peer_layers.HSAInGPS("torch")
        counts = [sum(p.numel() for p in x.parameters()) for x in (bare, ours)]
        assert counts[0] == counts[1]

    def test_the_own_block_is_as_large_as_the_others(self):
        ours = peer_layers.own_block("torch")
        frame = peer_layers.HSAInGPS("torch")
        counts = [sum(p.numel() for p in x.parameters()) for x in (ours, frame)]
        assert counts[0] == counts[1]
        products = sum(x.weight.numel() for x in self.linears(peer_layers.Products()))
        assert products == sum(x.weight.numel() for x in self.linears(frame))

    @staticmethod
    def linears(module):
        return [x for x in module.modules() if type(x).__name__ == "Linear"]

    def test_set_transformers_have_the_same_parameters(self):
        theirs = peer_layers.set_transformer()
        ours = peer_layers.HSAInSetTransformer(peer_layers.set_transformer(), "torch")
        x = torch.randn(64, peer_layers.WIDTH)
        out = ours(x, self.hierarchy)
        assert out.shape == theirs(x, torch.zeros(64, dtype=torch.long)).shape
        counts = [sum(p.numel() for p in x.parameters()) for x in (theirs, ours)]
        # HSA's place holds one attention; the encoder's own is kept but not run.
        attention = sum(p.numel() for p in theirs.encoders[0].mab.attn.parameters())
        assert counts[1] == counts[0] + attention

    def test_the_edges_of_the_tree_are_all_there_and_go_both_ways(self):
        edges = peer_layers.tree_edges(self.hierarchy)
        up = edges["leaf", "child_of", "node"]
        assert up.size(1) == 64
        assert torch.equal(up.flip(0), edges["node", "parent_of", "leaf"])
        inner = edges["node", "child_of", "node"]
        assert inner.size(1) == self.hierarchy.num_nodes - 64 - 1
        assert int(up[1].max()) < self.hierarchy.num_nodes - 64
        conv, edges = peer_layers.heterogeneous(self.hierarchy)
        inner = torch.randn(self.hierarchy.num_nodes - 64, peer_layers.WIDTH)
        out = conv({"leaf": torch.randn(64, peer_layers.WIDTH), "node": inner}, edges)
        assert out["leaf"].shape == (64, peer_layers.WIDTH)

    def test_the_complete_graph_has_all_pairs(self):
        conv, edges = peer_layers.complete_graph(6)
        assert edges.unique(dim=1).shape == (2, 36)
        assert conv(torch.randn(6, peer_layers.WIDTH), edges).shape == (6, 512)

    def test_a_window_sees_its_neighbours(self):
        pytest.importorskip("local_attention")
        q, k, v = (torch.randn(1, 8, 256, 64) for _ in range(3))
        for neighbours, seen in ((0, slice(64, 128)), (1, slice(0, 192))):
            out = peer_layers.local_attention(64, neighbours)(q, k, v)
            expected = scaled_dot_product_attention(
                q[:, :, 64:128], k[:, :, seen], v[:, :, seen]
            )
            torch.testing.assert_close(out[:, :, 64:128], expected)

    def test_the_core_of_h_transformer_is_its_layer_less_the_projections(self):
        pytest.importorskip("h_transformer_1d")
        layer, core_ = peer_layers.h_transformer(16), peer_layers.h_transformer_core(16)
        x = torch.randn(1, 256, peer_layers.WIDTH)
        torch.testing.assert_close(layer(x), layer.to_out(core_(layer.to_qkv(x))))

    def test_linear_attention_sees_everything(self):
        pytest.importorskip("linear_attention_transformer")
        q, k, v = (torch.randn(1, 8, 64, 64, requires_grad=True) for _ in range(3))
        out = peer_layers.linear_core()(q, k, v)
        (grad,) = torch.autograd.grad(out[0, 0, 0].sum(), v)
        assert bool((grad[0, 0].abs().sum(-1) > 0).all())
