"""The problem that Theta solves, from the tree alone (docs/mathematics.md, 3.3).

A free number for every block of two siblings and for every leaf's own weight, rows that
sum to 1, and sum_i KL(theta_i || softmax_i) to be made small.
"""

import numpy as np
import torch

from tests.dense_theta import Blocks, dot_scores, leaf_scores, measured_theta
from tests.forests import inputs, positions


class Problem:
    """min sum_i KL(theta_i || p_i) over block-constant row-stochastic matrices.

    Attributes:
        block: [X, N, N] entries that each free number fills.
        target: [N, N] softmax attention p.
    """

    def __init__(self, hierarchy, score, self_attention):
        blocks = Blocks(hierarchy)
        below = blocks.below.numpy()
        pairs = blocks.siblings.nonzero().tolist()
        filled = [np.outer(below[b], below[c]) for b, c in pairs]
        if self_attention:
            filled += [np.diag(row) for row in np.eye(len(score))]
        else:
            score = score.masked_fill(torch.eye(len(score)) > 0, float("-inf"))
        self.block = np.stack(filled)
        self.log_target = score.log_softmax(-1).numpy()
        self.rows = self.block.sum(2).T  # [N, X]

    def theta(self, x):
        return np.einsum("x,xij->ij", x, self.block)

    def divergence(self, x):
        theta = self.theta(x)
        on = self.block.sum(0) > 0
        return float((theta[on] * (np.log(theta[on]) - self.log_target[on])).sum())

    def gradient(self, x):
        theta = self.theta(x)
        on = self.block.sum(0) > 0
        slope = np.zeros_like(theta)
        slope[on] = np.log(theta[on]) - self.log_target[on] + 1
        return np.einsum("ij,xij->x", slope, self.block)

    def numbers_of(self, theta):
        """The free numbers of a block-constant matrix."""
        return np.einsum("ij,xij->x", theta, self.block) / self.block.sum((1, 2))

    def slope_left(self, theta):
        """How far a matrix is from stationary, relative to the slope.

        KL is convex: a feasible point with no slope left along the constraints, where
        the gradient is a combination of theirs, is the optimum.
        """
        slope = self.gradient(self.numbers_of(theta))
        multipliers, *_ = np.linalg.lstsq(self.rows.T, slope, rcond=None)
        left = slope - self.rows.T @ multipliers
        return np.abs(left).max() / max(np.abs(slope).max(), 1)


def problem_of(hierarchy, self_attention, seed, with_position=True):
    q, k, _ = inputs(hierarchy, heads=1, seed=seed)
    position = positions(hierarchy, 1, seed=seed) if with_position else None
    raw = dot_scores(q, k, q.size(2) ** -0.5)
    score = leaf_scores(Blocks(hierarchy), raw, position)[0]
    theta = measured_theta(
        q, k, hierarchy, position=position, self_attention=self_attention
    )
    return Problem(hierarchy, score, self_attention), theta[0].numpy()
