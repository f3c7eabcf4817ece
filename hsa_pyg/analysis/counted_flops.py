"""FLOPs of attention's matrix products, as torch's ``FlopCounterMode`` counts them."""

from __future__ import annotations

from dataclasses import dataclass

from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.flop_formulas import Widths, tied_flops, untied_flops


@dataclass(frozen=True)
class CountedFlops:
    """FLOPs of the matrix products of one layer's attention over the same leaves.

    Attributes:
        softmax: of softmax attention over the leaves of each tree, without padding.
        hsa: of hierarchical self-attention, without padding: what the backends "cpp"
            and "triton" compute.
        hsa_padded: of the backend "torch", which pads families to a few widths.
    """

    softmax: int
    hsa: int
    hsa_padded: int


def counted_flops(
    hierarchy: SignalHierarchy,
    channels: int,
    heads: int,
    *,
    value_channels: int | None = None,
    position_channels: int = 0,
    tie_queries: bool = True,
    backward: bool = False,
) -> CountedFlops:
    r"""FLOPs of attention over a forest, counted product by product.

    An addition and a multiplication are two FLOPs; softmax, sums and means are none.
    Softmax attention over N leaves then costs :math:`4 C N^2`, hierarchical
    self-attention :math:`4 C \sum b^2` over its families of b. Unlike
    :func:`attention_flops`, the paper's count, this one leaves out families of one,
    which the compiled forest does not have. torch's ``FlopCounterMode`` counts
    ``hsa_padded`` for the backend "torch" and ``hsa`` for the compiled ones, to the
    last digit. (It has no formula for softmax attention's fused kernel on a CPU and
    counts 0 for that.)

    Args:
        hierarchy: the compiled forest.
        channels: C of the queries and keys, of all heads together.
        heads: H.
        value_channels: the same of the values, if it differs.
        position_channels: the same of the positions, if there are any, with a vector
            per head. (Softmax attention has none.)
        tie_queries: as in :func:`~hsa_pyg.hierarchical_attention`. Untied queries run
            on the backend "torch" alone; ``hsa`` is what they would cost unpadded.
        backward: count the backward pass, which computes the scores again, instead of
            the forward pass. Gradients of energies are not counted.

    Raises:
        ValueError: if a number is not positive (``position_channels``: negative), or
            channels are not divisible by the heads.

    Example:
        >>> import torch
        >>> from hsa_pyg import SignalHierarchy
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2, 2]))
        >>> counted_flops(h, channels=8, heads=2)  # 16 pairs; 3 families of 2
        CountedFlops(softmax=512, hsa=384, hsa_padded=384)
    """
    values = channels if value_channels is None else value_channels
    sizes = {"channels": channels, "heads": heads, "value_channels": values}
    for name, number in sizes.items():
        if number < 1:
            raise ValueError(f"{name} must be positive, got {number}")
    for name in ("channels", "value_channels"):
        if sizes[name] % heads:
            raise ValueError(
                f"{name}, of all heads together, must be divisible by the heads, got "
                f"{sizes[name]} for {heads}"
            )
    if position_channels < 0:
        raise ValueError(
            f"position_channels must not be negative, got {position_channels}"
        )
    widths = Widths(
        heads, channels, values, position_channels, heads if position_channels else 0
    )
    flops = tied_flops if tie_queries else untied_flops
    leaves = hierarchy.leaf_counts[hierarchy.roots]
    pair = 3 * channels + 2 * values if backward else channels + values
    return CountedFlops(
        2 * pair * int(leaves.square().sum()),
        *(
            flops(hierarchy.layout, widths, backward=backward, padded=padded)
            for padded in (False, True)
        ),
    )
