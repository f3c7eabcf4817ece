from dataclasses import replace

from hsa_pyg.experiments.learning.clocks import epoch_seconds
from hsa_pyg.experiments.records import Record


def record(seconds, **row):
    rows = [{"seconds": one, **row} for one in seconds]
    numbers = {"seconds": 1.0, "peak_memory": 1, "attention_flops": 1}
    return Record(
        **{"experiment": "learning", "setting": "hsa", "seed": 0, "configuration": {}},
        **{"environment": {}, "history": rows, "final": {}, "facts": {}},
        **numbers,
    )


def test_one_clock_is_shown_for_all_settings():
    old = record([1.0, 2.0, 9.0])
    new = record([3.0, 3.0], processor_seconds=0.5)
    assert epoch_seconds({"a": [new], "b": [new]}) == (
        {"a": 0.5, "b": 0.5},
        "processor s",
    )
    assert epoch_seconds({"a": [new], "b": [old]}) == ({"a": 3.0, "b": 2.0}, "wall s")
    # That of the processor does not tell what an accelerator has worked.
    elsewhere = replace(new, facts={"device": "NVIDIA H100"})
    assert epoch_seconds({"a": [new], "b": [elsewhere]})[1] == "wall s"
