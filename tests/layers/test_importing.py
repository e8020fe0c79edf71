"""Layers can be imported first, before timm and before the networks that use them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["channel_attention"])
def test_a_layer_can_be_the_first_import_of_a_program(module: str) -> None:
    program = f"import robustvit.layers.{module}, timm; assert timm.is_model('fan_vit_nano')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
