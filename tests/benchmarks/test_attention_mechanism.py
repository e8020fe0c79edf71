"""What the programs of the mechanism table compute, on networks whose attention is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import attention_gate
import attention_mechanism
import robustvit as rv
from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import Hints, Scenes

PIXELS, LABELS = torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8), torch.arange(20) % 10


def even_network() -> nn.Module:
    """A ViT whose queries are zero: every token attends to all others alike."""
    network = rv.create_model("vit_nano", pretrained=True).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if ".qkv." in name:
                parameter[: parameter.shape[0] // 3] = 0
    return network


def test_even_attention_costs_nothing_where_it_is_even_already() -> None:
    found = attention_mechanism.looked_at_pairs(even_network(), PIXELS, LABELS)
    assert found["entropy"] == pytest.approx(1, abs=1e-5)
    assert (found["cost"], found["row_cosine"]) == (0, 0)
    assert found["centred_gaussian_noise"] == pytest.approx(0, abs=1e-6)


def test_a_network_that_attends_is_told_apart() -> None:
    network = rv.create_model("vit_nano", pretrained=True).eval()
    scenes = Scenes("test", 100, 32, hints=Hints(0.9, 0.9)).batch(range(100))
    labels = torch.tensor([scene.label for scene in scenes])
    found = attention_gate.looked_at(network, Normalisation.of(network)(scenes.images), labels)
    assert found["entropy"] < 0.95
    assert found["accuracy"] > found["even"] + attention_gate.COST


class Told(nn.Module):
    """A network with a token head that reads the class of every place from the image itself."""

    pretrained_cfg = dict(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), input_size=(3, 32, 32))

    def __init__(self, semantic: Tensor) -> None:
        super().__init__()
        self.semantic = semantic  # B 8 8, -1 on the ground
        self.token_head = nn.Identity()

    def token_grid(self, height: int, width: int) -> tuple[int, int]:
        return height // 4, width // 4

    def forward_tokens(self, images: Tensor) -> tuple[Tensor, Tensor]:
        classes = self.semantic.flatten(1).clamp(min=0)
        return images.new_zeros(len(images), 10), 20 * torch.nn.functional.one_hot(classes, 10).float()


def test_tokens_of_the_object_and_of_the_ground_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A labeler that says the class of the image on the whole object, and class 0 on the ground."""
    scenes = Scenes("test", 30, 32, hints=Hints(0.9, 0.9))
    batch = scenes.batch(range(30))
    labels = torch.tensor([scene.label for scene in batch])
    semantic = torch.stack([scene.semantic for scene in batch]).long()
    own = torch.nn.functional.avg_pool2d((semantic == 1 + labels[:, None, None]).float(), 4) > 0.5
    told = Told(torch.where(own, labels[:, None, None], -1))
    monkeypatch.setattr("robustvit.analysis.token_labels.has_token_head", lambda model: True)
    found = attention_mechanism.labels_by_place(told, scenes)
    assert found["object_label"] == 100
    assert found["ground_label"] == pytest.approx(100 * float((labels == 0).float().mean()), abs=6)
    assert found["object_confidence"] == pytest.approx(1, abs=1e-4)
