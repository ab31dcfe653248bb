import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("posable_host_gpu", Path(__file__).with_name("host.py"))
assert _spec is not None
assert _spec.loader is not None
host = sys.modules["posable_host_gpu"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(host)


@pytest.fixture(scope="session")
def host_gpu(tmp_path_factory):
    """One stand-in for the whole session: what it has compiled stays compiled."""
    if host.compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    return host.Gpu(tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def on_host(monkeypatch, host_gpu):
    """Put the stand-in where the driver of a GPU would be."""
    import posable.gpu.batch as batches
    import posable.gpu.batch as solving

    for module in (batches, solving):
        for name in ("Buffer", "Stream", "Pinned"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(host, name))
    monkeypatch.setattr(solving, "gpu", lambda: host_gpu)
    monkeypatch.setattr(solving, "missing", lambda: None)
    return host_gpu
