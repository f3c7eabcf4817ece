"""ListOps: nested operations on lists of digits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from hsa_pyg.datasets.list_ops_trees import SYMBOLS, draw_list_ops
from hsa_pyg.datasets.sequence_nesting import Hierarchy, SequenceNesting
from hsa_pyg.datasets.sequence_task import SequenceTask
from hsa_pyg.datasets.sequences import Sequences, random_stream


class ListOps(SequenceTask):
    r"""Nested operations on lists of digits, to be worked out.

    Such as ``[MAX 2 9 [MIN 4 7 ] 0 ]``, which is 9. The task is from N. Nangia and
    S. Bowman, "ListOps: A Diagnostic Dataset for Latent Tree Learning", NAACL 2018
    student research workshop (https://arxiv.org/abs/1804.06028); what is drawn here has
    the distribution of Y. Tay et al., "Long Range Arena", ICLR 2021
    (https://arxiv.org/abs/2011.04006), by default with the lengths of P. Ram et al.,
    "Transformers Learn Faster with Semantic Focus", NeurIPS 2025
    (https://arxiv.org/abs/2506.14095).

    The root has depth 1. A node above ``max_depth`` is with a chance of 1/4 an operator
    with 2 to ``max_args`` arguments, their number and the operator uniform; else it is
    a uniform digit. ``[MIN``, ``[MAX`` and ``[SM`` (the sum modulo 10) are what they
    say; ``[MED`` is the median, and halves are rounded down. Expressions outside of
    ``length`` are drawn again.

    A digit counts 1 and an operator 2, one for its name and one for the bracket ``]``
    that closes it: both are tokens, without which a sequence would not tell its value.
    (Long Range Arena writes round brackets too, which say nothing more.)

    Each expression is a signal whose leaves are ``token``, in the order of the text:

    * ``hierarchy="flat"``: sequence > token;
    * ``"windows"``: sequence > window > ... > token, windows of the given widths;
    * ``"tree"``: sequence > expression > ... > token. The first child of an expression
      is the token of its operator, then come its arguments, which are digits or
      expressions, and ``]``, unless ``brackets=False``.

    Long Range Arena's own data sets have 96,000, 2,000 and 2,000 samples of
    ``length=(500, 2_000)``.

    Args:
        split: ``"train"``, ``"val"`` (the holdout) or ``"test"``.
        root: Folder to keep the signals in. None keeps them in memory alone.
        num_samples: Number of sequences; by default 5,000 for training, else 2,000.
        length: Lengths lie between these two, both excluded. Small ones may repeat.
        max_depth: Depth at which all nodes are digits, at least 1.
        max_args: Largest number of arguments, at least 2.
        hierarchy: ``"flat"``, ``"tree"`` or ``"windows"``.
        windows: Widths of the windows from the bottom up: tokens in a window of the
            lowest level, windows of that in one of the next, ... The last is ragged.
        brackets: Whether ``]`` are leaves of the tree, which tells the value without
            them.
        pad_to: Pad at the end with ``[PAD]`` to this length. Ram et al. pad all to the
            longest, which is 599, whatever the attention.
        pad_multiple: Pad on to a multiple of this.
        seed: Seed; data sets of equal arguments are equal.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal once.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Draw the sequences again although ``root`` has them.
        log: Show a progress bar if drawing takes long.

    Raises:
        ValueError: If an argument is not known or out of its range, or there is no
            expression of such a length.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``token.pos``, ``expression.pos``, ``window.pos``: ``[n, 1]`` float, the place
          among the siblings
        - ``y``: ``[1]`` long, 0 to 9

    .. code-block:: python

        >>> dataset = ListOps(num_samples=10, length=(8, 12), hierarchy="tree")
        >>> dataset
        ListOps(list_ops_length8-12_depth10_args10, 10)
        >>> dataset.vocab_size, dataset.num_classes
        (16, 10)
        >>> 8 < dataset[0].hierarchy.num_leaves < 12
        True
    """

    symbols = SYMBOLS
    bracket_symbols = ("]",)
    has_tree = True

    def __init__(
        self,
        split: Literal["train", "val", "test"] = "train",
        *,
        root: str | os.PathLike[str] | None = None,
        num_samples: int | None = None,
        length: tuple[int, int] = (500, 600),
        max_depth: int = 10,
        max_args: int = 10,
        hierarchy: Hierarchy = "flat",
        windows: Sequence[int] | None = None,
        brackets: bool = True,
        pad_to: int | None = None,
        pad_multiple: int = 1,
        seed: int = 0,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        least, most = length
        if least < 0 or most - least < 2:
            raise ValueError(
                f"length={length} has no length between its two ends, which are "
                "excluded: use such as (500, 600)"
            )
        if max_depth < 1:
            raise ValueError(f"max_depth must be at least 1, got {max_depth}")
        if max_args < 2:
            raise ValueError(f"max_args must be at least 2, got {max_args}")
        self.length = (least, most)
        self.max_depth = max_depth
        self.max_args = max_args
        super().__init__(
            split,
            root=root,
            num_samples=num_samples,
            nesting=SequenceNesting(
                hierarchy, tuple(windows or ()), brackets, pad_to, pad_multiple
            ),
            seed=seed,
            transform=transform,
            pre_transform=pre_transform,
            pre_filter=pre_filter,
            force_reload=force_reload,
            log=log,
        )

    @property
    def key(self) -> str:
        """Lengths, depth and number of arguments."""
        lengths = "-".join(map(str, self.length))
        return f"list_ops_length{lengths}_depth{self.max_depth}_args{self.max_args}"

    @property
    def longest(self) -> int:
        """Largest number of tokens of a sequence, without padding."""
        return self.length[1] - 1

    @property
    def num_classes(self) -> int:
        """10: the digits."""
        return 10

    def sequences(self) -> Iterator[Sequences]:
        """Draw the expressions."""
        stream = random_stream(f"list_ops {self.split}", self.seed)
        missing = self.num_samples
        for part in draw_list_ops(stream, self.length, self.max_depth, self.max_args):
            yield part.first(missing)
            missing -= len(part)
            if missing <= 0:
                return
