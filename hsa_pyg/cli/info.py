"""What this machine has: versions, devices, backends."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from hsa_pyg.ops import available_backends

PACKAGES = (
    "hsa-pyg",
    "torch",
    "torch-geometric",
    "triton",
    "torch-scatter",
    "pyg-lib",
    "networkx",
    "igraph",
    "pymetis",
    "ogb",
    "rdkit",
    "selectolax",
    "markdown-it-py",
    "trafilatura",
    "EbookLib",
    "biopython",
    "pillow",
    "resvg-py",
    "lightning",
    "torchmetrics",
    "tokenizers",
    "sentencex",
    "transformers",
    "scikit-learn",
    "omegaconf",
    "matplotlib",
)


def describe_system() -> dict[str, str]:
    """Name and value of everything that a bug report should tell."""
    facts = {"python": platform.python_version(), "platform": platform.platform()}
    facts |= {name: _version(name) for name in PACKAGES}
    facts["cpu cores"] = str(os.cpu_count())
    facts["torch threads"] = str(torch.get_num_threads())
    facts["devices"] = ", ".join(["cpu", *_accelerators()])
    facts["backends"] = ", ".join(available_backends())
    return facts


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _accelerators() -> list[str]:
    names = [
        f"cuda:{i} ({torch.cuda.get_device_name(i)})"
        for i in range(torch.cuda.device_count())
    ]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


if __name__ == "__main__":
    # Without the extra that the command needs.
    for name, value in describe_system().items():
        print(name, value, sep=": ")
