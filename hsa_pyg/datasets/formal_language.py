"""Seven tasks on formal languages, from parity to solving equations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from hsa_pyg.datasets.formal_tasks import FORMAL_TASKS
from hsa_pyg.datasets.sequence_nesting import Hierarchy, SequenceNesting
from hsa_pyg.datasets.sequence_task import SequenceTask
from hsa_pyg.datasets.sequences import Sequences, random_stream

FormalTaskName = Literal[
    "even_pairs",
    "parity",
    "missing_duplicates",
    "cycle_navigation",
    "stack_manipulation",
    "modular_arithmetic",
    "solve_equation",
]


class FormalLanguage(SequenceTask):
    r"""Sequences of a formal language, with a class each.

    The tasks are from G. Delétang et al., "Neural Networks and the Chomsky Hierarchy",
    ICLR 2023 (https://arxiv.org/abs/2207.02098), in the form that P. Ram et al.,
    "Transformers Learn Faster with Semantic Focus", NeurIPS 2025
    (https://arxiv.org/abs/2506.14095), give them: one class for each sequence.

    ====================== =============================================================
    task                   sequence, and its class
    ====================== =============================================================
    ``even_pairs``         uniform bits; whether an odd number of neighbours differ,
                           that is, whether the first bit and the last do
    ``parity``             uniform bits; their sum modulo 2
    ``missing_duplicates`` uniform bits written twice, one of all hidden as ``?``; the
                           hidden bit
    ``cycle_navigation``   uniform steps -1, 0 or +1; where they lead on a cycle of 5
    ``stack_manipulation`` a stack of 1 to ``length`` - 1 bits from its bottom up, then
                           uniform ``POP``, ``PUSH0``, ``PUSH1`` (an empty stack ignores
                           ``POP``); the top of the final stack, 2 if it is empty
    ``modular_arithmetic`` a bracketed expression of digits 0 to 4, ``+``, ``-`` and
                           ``*``; its value modulo 5
    ``solve_equation``     a bracketed expression with ``+`` and ``-``, one digit
                           written ``x``, then ``=`` and its value modulo 5; that digit,
                           the only solution
    ====================== =============================================================

    An expression of length 1 is a digit, of 2 ``-d``, of 3 ``(d)``, of 4 ``(-d)``, and
    any longer one ``(left op right)``, its operator and the length of its left side
    uniform. The hidden digit is the first at or behind a uniform place, around the end.

    Each sequence is a signal whose leaves are ``token``, in the order of the sequence:

    * ``hierarchy="flat"``: sequence > token;
    * ``"windows"``: sequence > window > ... > token, windows of the given widths;
    * ``"tree"`` (for the last two tasks): sequence > expression > ... > token. The
      children of an expression are its parts in order: brackets and operator are
      leaves, as digits are, and longer sides are expressions. ``=``, the value behind
      it and the padding hang under the sequence.

    Args:
        task: One of the names above.
        split: ``"train"``, ``"val"`` (the holdout) or ``"test"``.
        root: Folder to keep the signals in. None keeps them in memory alone.
        num_samples: Number of sequences; by default 5,000 for training, else 2,000.
        length: Number of tokens of each; even for ``missing_duplicates``.
        hierarchy: ``"flat"``, ``"tree"`` or ``"windows"``.
        windows: Widths of the windows from the bottom up: tokens in a window of the
            lowest level, windows of that in one of the next, ... The last is ragged.
        brackets: Whether brackets are leaves of the tree, which tells the value without
            them.
        pad_to: Pad at the end with ``[PAD]`` to this length.
        pad_multiple: Pad on to a multiple of this. Nothing masks the padding, as in
            Ram et al., who pad to the width of their attention masks.
        seed: Seed; data sets of equal arguments are equal.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal once.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Draw the sequences again although ``root`` has them.
        log: Show a progress bar if drawing takes long.

    Raises:
        ValueError: If an argument is not known or out of its range.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``token.pos``, ``expression.pos``, ``window.pos``: ``[n, 1]`` float, the place
          among the siblings
        - ``y``: ``[1]`` long

    .. code-block:: python

        >>> dataset = FormalLanguage("solve_equation", num_samples=10, hierarchy="tree")
        >>> dataset
        FormalLanguage(solve_equation_length40, 10)
        >>> dataset.token_names
        ('0', '1', '2', '3', '4', '+', '-', '(', ')', 'x', '=', '[PAD]')
        >>> dataset[0]["token"].x.shape, dataset[0].hierarchy.num_leaves
        (torch.Size([40]), 40)
    """

    def __init__(
        self,
        task: FormalTaskName,
        split: Literal["train", "val", "test"] = "train",
        *,
        root: str | os.PathLike[str] | None = None,
        num_samples: int | None = None,
        length: int = 40,
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
        if task not in FORMAL_TASKS:
            raise ValueError(
                f"task={task!r} is not known: use one of {list(FORMAL_TASKS)}"
            )
        self._task = FORMAL_TASKS[task]
        if length < self._task.shortest or length % self._task.step:
            unit = "even and " if self._task.step == 2 else ""
            raise ValueError(
                f"length of {task!r} must be {unit}at least {self._task.shortest}, "
                f"got {length}"
            )
        self.task = task
        self.length = length
        self.symbols = self._task.symbols
        self.has_tree = self._task.has_tree
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
        """Task and length."""
        return f"{self.task}_length{self.length}"

    @property
    def longest(self) -> int:
        """Number of tokens of every sequence, without padding."""
        return self.length

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self._task.num_classes

    def sequences(self) -> Iterator[Sequences]:
        """Draw the sequences."""
        stream = random_stream(f"{self.task} {self.split}", self.seed)
        yield self._task.draw(stream, self.num_samples, self.length)
