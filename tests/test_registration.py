"""Our networks are known to timm, whenever it is imported, and importing us costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "program",
    [
        "import robustvit, timm",
        "import timm, robustvit",
        "import robustvit, importlib.util as u; u.find_spec('timm'); import timm",
        "import robustvit; from timm.models import list_models; import timm",
    ],
    ids=["before timm", "after timm", "after a probe", "through a submodule"],
)
def test_timm_knows_our_networks(program: str) -> None:
    assert run(f"{program}; print(timm.is_model('fan_hybrid_small'), timm.is_model('resnet18'))") == "True True"


def test_an_import_of_timm_that_fails_can_be_repeated() -> None:
    program = """
import sys, robustvit
sys.modules["timm.layers"] = None
try:
    import timm
except ImportError:
    del sys.modules["timm.layers"]
    for name in [n for n in sys.modules if n.startswith("timm")]:
        del sys.modules[name]
import timm
print(timm.is_model("fan_hybrid_small"))
"""
    assert run(program) == "True"


def test_importing_the_package_imports_neither_torch_nor_timm() -> None:
    assert run("import robustvit, sys; print('torch' in sys.modules, 'timm' in sys.modules)") == "False False"


def test_names_are_there_in_any_order_of_use() -> None:
    assert run("import robustvit as rv; rv.Tape; rv.fuse; print(callable(rv.record), callable(rv.fuse))") == "True True"


def test_every_public_name_is_there_at_once() -> None:
    program = """
import robustvit as rv
print(rv.methods.attention_diversification.__name__)
print(all(getattr(rv, name) is not None for name in rv.__all__), hasattr(rv, "no_such_name"))
"""
    assert run(program).splitlines() == ["attention_diversification", "True False"]
