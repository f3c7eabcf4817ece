from types import SimpleNamespace

import torch

from hsa_pyg.integrations.seeded_epochs import SeededEpochs


def draw(callback, epoch, batch=0):
    callback.on_train_batch_start(SimpleNamespace(current_epoch=epoch), None, 0, batch)
    return torch.rand(3)


def test_an_epoch_draws_its_own_numbers_whatever_was_drawn_before():
    first = draw(SeededEpochs(1), 0)
    rest = draw(SeededEpochs(1), 0, batch=1)
    second = draw(SeededEpochs(1), 1)
    torch.rand(5)
    assert draw(SeededEpochs(1), 0).equal(first)
    assert draw(SeededEpochs(1), 1).equal(second)
    assert not first.equal(second)
    # A later batch goes on with the epoch's numbers.
    assert not rest.equal(first)
    assert not draw(SeededEpochs(2), 0).equal(first)


def test_the_seed_of_the_checkpoint_is_taken_up():
    other = SeededEpochs(2)
    other.load_state_dict(SeededEpochs(1).state_dict())
    assert draw(other, 3).equal(draw(SeededEpochs(1), 3))
