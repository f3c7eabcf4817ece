from hsa_pyg.datasets.splits import TRAIN_VAL_TEST, hash_split


def test_every_class_is_shared_out():
    labels = {f"{label}{i}": label for label in "abc" for i in range(40)}
    parts = hash_split(labels, TRAIN_VAL_TEST)
    assert list(parts) == list(labels)
    for label in "abc":
        sizes = [
            sum(
                labels[name] == label and part == wanted for name, part in parts.items()
            )
            for wanted in ("train", "val", "test")
        ]
        assert sizes == [32, 4, 4]


def test_the_order_of_samples_does_not_matter():
    labels = {str(i): i % 3 for i in range(50)}
    backwards = dict(reversed(labels.items()))
    assert hash_split(backwards, TRAIN_VAL_TEST) == hash_split(labels, TRAIN_VAL_TEST)


def test_classes_of_one_sample_are_in_one_part():
    parts = hash_split({"only": "rare"}, TRAIN_VAL_TEST)
    assert parts == {"only": "train"}
    assert hash_split({}, TRAIN_VAL_TEST) == {}


def test_names_may_hold_halves_of_characters():
    names = {f"{number}\ud800": 0 for number in range(10)}
    assert set(hash_split(names, {"train": 0.5, "test": 0.5})) == set(names)
