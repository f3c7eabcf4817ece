"""HSA on a GPU: whether the Triton kernels are right, and how fast they are.

In bfloat16 with 8 heads of 64. A copy is one of q, k, v and an output to memory that
was used before; the floor of both passes is the time in which such a copy moves twelve
tensors: q, k, v and y forward; q, k, v, y, its gradient and three gradients backward.
Times are from the call to the end of the GPU's work, unless a row says that it is the
replay of a CUDA graph, which leaves out what Python takes to launch kernels. What is
compared runs in turn. All of it takes a few minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.check_cuda import check
from benchmarks.report import Options, Section
from benchmarks.timing import HEAD, Call, Goal, compared, machine, table
from benchmarks.trees import Tree
from hsa_pyg import hierarchical_attention

HEADS, CHANNELS = 8, 64
#: Tensors that a copy reads and writes, and that both passes touch at least.
COPIED, TOUCHED = 8, 12


def device_of(options: Options) -> torch.device:
    """The GPU; with ``quick`` the CPU, if Triton's interpreter is on.

    Raises:
        SystemExit: if there is no GPU.
    """
    if torch.cuda.is_available():
        return torch.device("cuda")
    if options.quick:
        return torch.device("cpu")
    raise SystemExit(
        "This benchmark needs a GPU. With TRITON_INTERPRET=1 and --quick it tries "
        "itself on the CPU."
    )


def card(device: torch.device) -> str:
    """The machine, and its GPU."""
    if device.type == "cpu":
        return (
            f"{machine()}; no GPU: Triton's interpreter, so that no time means a thing"
        )
    name = torch.cuda.get_device_name(device)
    return f"{name}, CUDA {torch.version.cuda}; {machine()}"


def finished(call: Call, device: torch.device) -> Call:
    """``call``, until the GPU has done it."""
    if device.type == "cpu":
        return call

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def random(leaves: int, device: torch.device, gradient: bool = False) -> list[Tensor]:
    """Four tensors as long as the leaves: q, k, v, and an output or its cotangent."""
    shape = (leaves, HEADS, CHANNELS)
    torch.manual_seed(0)
    made = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(4)]
    return [x.requires_grad_(gradient) for x in made[:3]] + made[3:]


def attention(tree: Tree, device: torch.device, gradient: bool) -> Call:
    """HSA, and its gradients if they are wanted."""
    hierarchy = tree.hierarchy().to(device)
    *held, cotangent = random(tree.leaves, device, gradient)

    def run() -> object:
        y = hierarchical_attention(*held, hierarchy, backend="triton")
        return torch.autograd.grad(y, held, cotangent) if gradient else y

    return run


def graphed(call: Call, device: torch.device) -> Call:
    """The replay of ``call`` as a CUDA graph."""
    if device.type == "cpu":
        return call
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def copying(leaves: int, device: torch.device, tensors: int = COPIED) -> Call:
    """Copies that read and write so many tensors as long as the leaves."""
    shape = (leaves, HEADS, CHANNELS)
    pairs = [
        [torch.zeros(shape, device=device, dtype=torch.bfloat16) for _ in range(2)]
        for _ in range(tensors // 2)
    ]
    return lambda: [target.copy_(source) for source, target in pairs]


def softmax(leaves: int, device: torch.device) -> Call:
    """Softmax attention over the same leaves by the flash kernel."""
    shape = (1, HEADS, leaves, CHANNELS)
    q, k, v = (
        torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3)
    )

    def run() -> Tensor:
        flash = [SDPBackend.FLASH_ATTENTION] if device.type == "cuda" else []
        with sdpa_kernel(flash or [SDPBackend.MATH]):
            return scaled_dot_product_attention(q, k, v)

    return run


def checks(options: Options) -> Section:
    """Whether the kernels are right and keep what they promise."""
    device = device_of(options)
    rows = check(device)
    return Section(table(("check", "found", "passed"), rows), machine=card(device))


def timed(
    options: Options, rows: Callable[[torch.device, Callable[..., list[str]]], list]
) -> Section:
    """A table of comparisons on the GPU."""
    device = device_of(options)

    def compare(label: str, above: Call, below: Call, goal: Goal | None) -> list[str]:
        calls = (finished(call, device) for call in (above, below))
        return compared(label, *calls, options.runs, goal, options.budget)

    found = rows(device, compare)
    return Section(table(HEAD, found), machine=card(device))


def memory_rows(
    leaves: int, device: torch.device, compare: Callable[..., list[str]]
) -> list[list[str]]:
    """HSA over moving bytes."""
    rows = []
    for gradient, passes, goal in (
        (False, "forward", Goal(3, 1.5)),
        (True, "forward and backward", None),
    ):
        call = attention(Tree(leaves), device, gradient)
        replay = graphed(call, device)
        label = f"{leaves:,} leaves, {passes}: HSA"
        copies = copying(leaves, device)
        rows.append(compare(f"{label} / copies of q, k, v, y", call, copies, goal))
        text = f"{label} as a graph / copies of q, k, v, y"
        rows.append(compare(text, replay, copies, goal))
        touched = TOUCHED if gradient else COPIED // 2
        floor = copying(leaves, device, touched)
        text = f"{label} as a graph / moving {touched} tensors once, its floor"
        rows.append(compare(text, replay, floor, Goal(3) if gradient else None))
    return rows


def softmax_rows(
    sizes: dict[int, Goal], device: torch.device, compare: Callable[..., list[str]]
) -> list[list[str]]:
    """Softmax attention over HSA."""
    rows = []
    for leaves, goal in sizes.items():
        theirs = softmax(leaves, device)
        ours = attention(Tree(leaves), device, False)
        label = f"{leaves:,} leaves, forward: softmax (flash) / HSA"
        rows.append(compare(label, theirs, ours, goal))
        replay = graphed(ours, device)
        rows.append(compare(f"{label} as a graph", theirs, replay, goal))
    return rows


def ragged_rows(
    leaves: int, device: torch.device, compare: Callable[..., list[str]]
) -> list[list[str]]:
    """Families of 6 to 26 over families of 16."""
    rows = []
    for gradient, passes in ((False, "forward"), (True, "forward and backward")):
        ragged, regular = (
            graphed(attention(tree, device, gradient), device)
            for tree in (Tree(leaves, 6, 26), Tree(leaves))
        )
        label = f"{leaves:,} leaves, {passes}, as graphs: ragged / regular"
        rows.append(compare(label, ragged, regular, Goal(1.3)))
    return rows


def memory(options: Options) -> Section:
    """HSA over moving q, k, v and y, and over its floor."""
    leaves = 32 if options.quick else 2**20
    return timed(options, partial(memory_rows, leaves))


def against_softmax(options: Options) -> Section:
    """Softmax attention over HSA."""
    sizes = {65536: Goal(50, 100), 262144: Goal(250, 500)}
    if options.quick:
        sizes = {32: Goal(1, 2)}
    return timed(options, partial(softmax_rows, sizes))


def raggedness(options: Options) -> Section:
    """Ragged families over regular ones."""
    leaves = 32 if options.quick else 2**20
    return timed(options, partial(ragged_rows, leaves))


SECTIONS = {
    "checks": checks,
    "memory": memory,
    "softmax": against_softmax,
    "ragged": raggedness,
}
