"""Our networks are known to timm, whenever it is imported, and importing us costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import robustvit  # noqa: F401 - registers the writers
from robustvit.runtime import page_writers

ORDERS = {
    "before timm": "import robustvit, timm",
    "after timm": "import timm, robustvit",
    "after a probe": "import robustvit, importlib.util as u; u.find_spec('timm'); import timm",
    "through a submodule": "import robustvit; from timm.models import list_models; import timm",
}
PROGRAMS = {
    order: f"{program}; print(timm.is_model('fan_hybrid_small'), timm.is_model('resnet18'))"
    for order, program in ORDERS.items()
} | {
    "after a failure": """
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
""",
    "any order": "import robustvit as rv; rv.Tape; rv.fuse; print(callable(rv.record), callable(rv.fuse))",
    "at once": """
import robustvit as rv
print(rv.methods.attention_diversification.__name__)
print(all(getattr(rv, name) is not None for name in rv.__all__), hasattr(rv, "no_such_name"))
""",
}
FORKS = """
import json, os, sys, tempfile
import torch, torchvision  # what takes long to import, and is not what the programs are about
assert not {"timm", "robustvit"} & sys.modules.keys()
printed = {}
for name, program in json.load(sys.stdin).items():
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            exec(program, {"__name__": "__main__"})
            sys.exit()
        _, status = os.waitpid(child, 0)
        output.seek(0)
        errors.seek(0)
        printed[name] = output.read().strip() if status == 0 else f"status {status}: {errors.read()}"
print(json.dumps(printed))
"""


def run(program: str, given: str = "") -> str:
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What each program prints, or how it fails, in a process of its own that had imported neither timm nor us."""
    return json.loads(run(FORKS, json.dumps(PROGRAMS)))


@pytest.mark.parametrize("order", ORDERS)
def test_timm_knows_our_networks(order: str, printed: dict[str, str]) -> None:
    assert printed[order] == "True True"


def test_an_import_of_timm_that_fails_can_be_repeated(printed: dict[str, str]) -> None:
    assert printed["after a failure"] == "True"


def test_importing_the_package_imports_neither_torch_nor_timm() -> None:
    assert run("import robustvit, sys; print('torch' in sys.modules, 'timm' in sys.modules)") == "False False"


def test_every_registered_page_writer_is_a_function() -> None:
    assert page_writers._WRITERS.keys() == {"results", "analysis", "training", "sweep"}
    assert all(callable(page_writers.page_writer(kind)) for kind in page_writers._WRITERS)


def test_names_are_there_in_any_order_of_use(printed: dict[str, str]) -> None:
    assert printed["any order"] == "True True"


def test_every_public_name_is_there_at_once(printed: dict[str, str]) -> None:
    assert printed["at once"].splitlines() == ["attention_diversification", "True False"]
