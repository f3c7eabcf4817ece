"""Whether the Triton kernels are right on this GPU, and keep what they promise."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.trees import forest, parents
from hsa_pyg import SignalHierarchy, hierarchical_attention

#: Error that is allowed, in the largest number of a result.
TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
Results = list[Tensor]


def awkward() -> Tensor:
    """Parents of a forest with all kinds of families and levels."""
    star = torch.cat([torch.tensor([-1]), torch.zeros(130, dtype=torch.long)])
    mixed = torch.cat([star, torch.tensor([1, 1, 1, 2, 2, 3])])
    spine = torch.arange(40)
    caterpillar = torch.cat([spine - 1, spine, spine[-1:]])
    chain, one = torch.tensor([-1, 0, 1, 2, 2]), torch.tensor([-1])
    ragged = parents(700, 2, 26)
    return forest([star, mixed, caterpillar, chain, one, ragged])


def tensors(
    hierarchy: SignalHierarchy, dtype: torch.dtype, channels: int, positions: bool
) -> list[Tensor]:
    """q, k, v and perhaps positions, on the CPU: the same numbers in every dtype."""
    generator = torch.Generator().manual_seed(0)
    shape = (hierarchy.num_leaves, 2, channels)
    made = [torch.randn(shape, generator=generator) for _ in range(3)]
    if positions:
        made.append(torch.randn(hierarchy.num_nodes, 2, 5, generator=generator))
    return [x.to(dtype) for x in made]


def results(
    held: list[Tensor],
    hierarchy: SignalHierarchy,
    backend: str,
    self_attention: bool = True,
) -> Results:
    """y, finite energies, and the gradients of a fixed function of both."""
    leaves = [x.detach().requires_grad_() for x in held]
    y, phi = hierarchical_attention(
        *leaves[:3],
        hierarchy,
        position=leaves[3] if len(leaves) > 3 else None,
        self_attention=self_attention,
        return_energy=True,
        backend=backend,
    )
    phi = torch.where(phi.isfinite(), phi, 0)
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(x.shape, generator=generator).to(x) for x in (y, phi)]
    grads = torch.autograd.grad([y, phi], leaves, cotangents)
    return [y.detach(), phi.detach(), *grads]


def largest_error(actual: Results, expected: Results) -> float:
    """Largest difference in a result, in its largest number; infinite for NaN."""
    errors = []
    for a, b in zip(actual, expected, strict=True):
        difference = (a.cpu().double() - b.cpu().double()).abs()
        size = float(b.abs().max()) if b.numel() else 1.0
        error = float(difference.max()) / max(size, 1e-30) if b.numel() else 0.0
        errors.append(error if error == error else float("inf"))
    return max(errors)


def against_the_cpu(device: torch.device) -> list[list[str]]:
    """The kernels against the batched passes on the CPU in float64, by dtype."""
    hierarchy = SignalHierarchy.from_parents(awkward())
    there, rows = hierarchy.to(device), []
    for dtype, allowed in TOLERANCE.items():
        worst = 0.0
        for channels, positions, self_attention in (
            (64, False, True),
            (24, True, False),
        ):
            held = tensors(hierarchy, dtype, channels, positions)
            actual = results(
                [x.to(device) for x in held], there, "triton", self_attention
            )
            expected = results(
                [x.double() for x in held], hierarchy, "torch", self_attention
            )
            worst = max(worst, largest_error(actual, expected))
        label = f"error in {dtype} (allowed: {allowed:g})"
        rows.append([label, f"{worst:.1e}", verdict(worst <= allowed)])
    return rows


def verdict(is_right: bool) -> str:
    """``"yes"`` or ``"NO"``."""
    return "yes" if is_right else "NO"


def deterministic(device: torch.device) -> bool:
    """Whether two calls give the same bits."""
    hierarchy = SignalHierarchy.from_parents(awkward()).to(device)
    held = [x.to(device) for x in tensors(hierarchy, torch.bfloat16, 64, False)]
    first, second = (results(held, hierarchy, "triton") for _ in range(2))
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def step(device: torch.device) -> tuple[list[Tensor], Callable[[], list[Tensor]]]:
    """Inputs, and forward and backward pass on them for a fixed hierarchy."""
    hierarchy = SignalHierarchy.from_parents(awkward()).to(device)
    held = [
        x.to(device).requires_grad_()
        for x in tensors(hierarchy, torch.bfloat16, 64, False)
    ]
    cotangent = torch.ones_like(held[2])

    def run() -> list[Tensor]:
        y = hierarchical_attention(*held, hierarchy, backend="triton")
        return [y, *torch.autograd.grad(y, held, cotangent)]

    return held, run


def no_synchronisation(device: torch.device) -> bool:
    """Whether forward and backward pass run while waiting for the GPU is an error."""
    _, run = step(device)
    run()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return True


def captured(device: torch.device) -> bool:
    """Whether a CUDA graph of both passes gives the same bits, also on new inputs."""
    held, run = step(device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    with torch.no_grad():
        for x in held:
            x.copy_(x.flip(0))
    graph.replay()
    torch.cuda.synchronize()
    return all(torch.equal(a, b) for a, b in zip(found, run(), strict=True))


def compiled(device: torch.device) -> bool:
    """Whether torch.compile takes random batches as one graph, and at most two."""
    attention = torch.compile(_attend, fullgraph=True, dynamic=True)
    graphs = torch._dynamo.utils.counters["stats"]
    graphs.clear()
    worst = 0.0
    for seed in range(5):
        trees = [parents(50 + 30 * seed + i, 2, 9, seed) for i in range(seed + 2)]
        hierarchy = SignalHierarchy.from_parents(forest(trees)).to(device)
        held = [
            x.to(device).requires_grad_()
            for x in tensors(hierarchy, torch.float32, 24, False)
        ]
        actual, expected = (
            [y.detach(), *torch.autograd.grad(y.sum(), held)]
            for y in (attention(*held, hierarchy), _attend(*held, hierarchy))
        )
        worst = max(worst, largest_error(actual, expected))
    return worst <= TOLERANCE[torch.float32] and graphs["unique_graphs"] <= 2


def _attend(q: Tensor, k: Tensor, v: Tensor, hierarchy: SignalHierarchy) -> Tensor:
    return hierarchical_attention(q, k, v, hierarchy, backend="triton")


def check(device: torch.device) -> list[list[str]]:
    """A row for each promise: what it is, what was found, whether it is kept.

    A check that fails is a row, so that those after it run, too.
    """
    rows = against_the_cpu(device)
    checks: dict[str, Callable[[torch.device], bool]] = {
        "same bits twice": deterministic
    }
    if device.type == "cuda":
        checks |= {
            "nothing waits for the GPU": no_synchronisation,
            "CUDA graph of both passes": captured,
            "torch.compile, fullgraph, random batches": compiled,
        }
    for name, function in checks.items():
        found = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                is_right = function(device)
        except Exception as error:  # whatever it is, it goes into the table
            is_right, found = False, f"{type(error).__name__}: {error}".split("\n")[0]
        rows.append([name, found.replace("|", "/")[:120], verdict(is_right)])
    return rows
