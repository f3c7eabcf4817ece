"""Which backend the tests beside this file mean by "auto"."""

import pytest

from hsa_pyg.ops import backends

# They are about the choice itself.
_AS_USERS_GET_IT = {"test_backends", "test_dispatch"}


@pytest.fixture(autouse=True, scope="module")
def _auto_means_torch(request):
    """The torch backend is under test here; the others have folders of their own."""
    path = request.path
    if path.parent.name != "ops" or path.stem in _AS_USERS_GET_IT:
        yield
        return
    choose = backends.choose

    def torch_for_auto(backend, *call):
        return choose("torch" if backend == "auto" else backend, *call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "choose", torch_for_auto)
        yield
