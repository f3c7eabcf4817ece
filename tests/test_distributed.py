"""Training in two processes, which the recipe for it runs in one."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from hsa_pyg.converters import HashedWords, concat, from_document, from_image
from hsa_pyg.data import unify, union_schema
from hsa_pyg.integrations.lightning import SignalClassifier, SignalDataModule
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HSATransformer
from tests.integrations.test_lightning import trainer


def captioned(pictures):
    """Captions, those at ``pictures`` with a picture; of two classes."""
    words = HashedWords(vocab_size=64)
    draw = torch.Generator().manual_seed(0)
    items = []
    for number in range(8):
        caption = from_document(f"Rain {number}. Still rain.", tokenizer=words)
        picture = from_image(torch.rand(3, 32, 32, generator=draw))
        parts = {"text": caption, "picture": picture if number in pictures else None}
        items.append(concat(parts, y=number % 2))
    return items


def seeded_model(schema):
    torch.manual_seed(0)
    return HSATransformer.from_schema(
        schema, 2, vocab_sizes={"token": 64}, channels=8, dropout=0.0
    )


def gradients(model, items, schema):
    (batch,) = DataLoader(items, batch_size=len(items), schema=schema)
    F.cross_entropy(model(batch), batch.y).backward()


def one_of_two(rank, folder):
    """Leave in ``folder`` the gradients of the process ``rank``."""
    torch.set_num_threads(1)
    # The signals of one process have no pictures.
    items = captioned(pictures=range(0, 8, 2))
    schema = union_schema(items)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = seeded_model(schema)
    parallel = DistributedDataParallel(model, find_unused_parameters=True)
    gradients(parallel, items[rank::2], schema)
    found = {name: value.grad for name, value in model.named_parameters()}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    # Not by destructors: torch's DistributedDataParallel joins a thread of gloo in its
    # own, which may wait for Python meanwhile, for ever.
    os._exit(0)


def test_two_processes_have_the_gradients_of_the_whole_batch(tmp_path):
    items = captioned(pictures=range(0, 8, 2))
    schema = union_schema(items)
    model = seeded_model(schema)
    gradients(model, items, schema)
    mp.spawn(one_of_two, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name, value in model.named_parameters():
            torch.testing.assert_close(found[name], value.grad)


def test_scores_and_losses_are_over_all_processes():
    items = list(unify(captioned(pictures=range(2))))
    classifier = SignalClassifier(seeded_model(union_schema(items)), num_classes=2)
    data = SignalDataModule(items, items, items, batch_size=2)
    alone, both = trainer(devices=1), trainer(devices=2, strategy="ddp_spawn")
    scores = [one.validate(classifier, data, verbose=False)[0] for one in (alone, both)]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5)
