"""The networks written down formula by formula, with no thought for speed.

This is what our networks are compared with: explicit attention, channels-first maps, one operation per symbol, and the two
products that the published implementations compute and throw away (a second `attn @ v` in token attention, a second
channel product in channel attention). It reads a state dict with the *published* names, shares no code with the package,
and so doubles as the independent check of every network in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

Weights = Mapping[str, Tensor]


class Scope:
    """A view of a flat state dict below one prefix, with the few layers that the formulas are made of."""

    def __init__(self, weights: Weights, prefix: str = "", training: bool = False) -> None:
        self.weights, self.prefix, self.training = weights, prefix, training

    def __truediv__(self, name: str | int) -> Scope:
        return Scope(self.weights, f"{self.prefix}{name}.", self.training)

    def __getitem__(self, name: str) -> Tensor:
        return self.weights[self.prefix + name]

    def get(self, name: str) -> Tensor | None:
        return self.weights.get(self.prefix + name)

    def __contains__(self, name: str) -> bool:
        return any(key.startswith(self.prefix + name) for key in self.weights)

    def count(self, name: str) -> int:
        """How many numbered entries `name.0`, `name.1`, ... there are."""
        pattern = re.compile(re.escape(f"{self.prefix}{name}.") + r"(\d+)\.")
        return 1 + max((int(m.group(1)) for k in self.weights if (m := pattern.match(k))), default=-1)

    def linear(self, x: Tensor) -> Tensor:
        return F.linear(x, self["weight"], self.get("bias"))

    def conv(self, x: Tensor, stride: int = 1, padding: int = 0, groups: int = 1) -> Tensor:
        return F.conv2d(x, self["weight"], self.get("bias"), stride, padding, groups=groups)

    def layer_norm(self, x: Tensor, eps: float) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self["weight"], self["bias"], eps)

    def channel_norm(self, x: Tensor, eps: float = 1e-6) -> Tensor:  # B C H W, over C
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / (variance + eps).sqrt()
        return x * self["weight"][:, None, None] + self["bias"][:, None, None]

    def batch_norm(self, x: Tensor) -> Tensor:
        mean, var = self["running_mean"], self["running_var"]
        if self.training:
            mean, var = mean.clone(), var.clone()
        return F.batch_norm(x, mean, var, self["weight"], self["bias"], self.training, 0.1, 1e-5)


def to_map(x: Tensor, grid: tuple[int, int]) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], *grid).contiguous()  # B N C -> B C H W


def to_tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2).contiguous()  # B C H W -> B N C


def heads_of(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)  # B N C -> B H N D


def pooled_tokens(s: Scope, x: Tensor, grid: tuple[int, int]) -> Tensor:
    """TAP: every token is a mixture of itself and 3x3 means of growing dilation around it."""
    z = to_map(x, grid)
    logits = (s / "proj" / 2).conv((s / "proj" / 1).batch_norm((s / "proj" / 0).conv(z, padding=1)), padding=1)
    weights = logits.softmax(1)
    pooled = weights[:, :1] * z
    for r in range(1, weights.shape[1]):
        patches = F.unfold(z, 3, dilation=r, padding=r).reshape(z.shape[0], z.shape[1], 9, -1)
        pooled = pooled + weights[:, r : r + 1] * patches.mean(2).reshape(z.shape)
    return to_tokens(pooled)


def token_mixing(s: Scope, x: Tensor, heads: int) -> Tensor:
    q, (k, v) = (s / "q").linear(x), (s / "kv").linear(x).chunk(2, -1)
    q, k, v = heads_of(q, heads), heads_of(k, heads), heads_of(v, heads)
    attn = (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(-1)
    out = (attn @ v).transpose(1, 2).reshape(x.shape)
    _ = attn @ v  # the published implementation returns this a second time
    return (s / "proj").linear(out)


def conv_mlp(s: Scope, x: Tensor, grid: tuple[int, int], residual: bool) -> Tensor:
    t = (s / "fc1").linear(x)
    c = t.shape[-1]
    y = F.gelu((s / "dwconv" / "conv1").conv(to_map(t, grid), padding=1, groups=c))
    y = to_tokens((s / "dwconv" / "conv2").conv((s / "dwconv" / "bn").batch_norm(y), padding=1, groups=c))
    y = s["gamma"] * y
    return (s / "fc2").linear(y + t if residual else y)


def channel_attention(s: Scope, x: Tensor, grid: tuple[int, int], residual: bool = True) -> Tensor:
    temperature = s["temperature"]  # [h, 1, 1]
    heads = temperature.shape[0]
    q = heads_of((s / "q").linear(x), heads).softmax(-2).transpose(-2, -1)  # B H D N
    k = heads_of(x, heads).softmax(-2).mean(-1, keepdim=True)  # B H N 1
    attn = temperature * torch.sigmoid(q @ k)  # B H D 1
    v = heads_of((s / "norm_v").layer_norm(conv_mlp(s / "mlp_v", x, grid, residual), 1e-5), heads)
    out = (attn * v.transpose(-2, -1)).permute(0, 3, 1, 2).reshape(x.shape)
    _ = attn * v.transpose(-2, -1)  # and this one
    return out


def squeeze_excite(s: Scope, y: Tensor, grid: tuple[int, int]) -> Tensor:
    y = to_map(y, grid)
    gate = (s / "conv_expand").conv((s / "conv_reduce").conv(y.mean((2, 3), keepdim=True)).relu()).sigmoid()
    return to_tokens(y * gate)


def fan_block(s: Scope, x: Tensor, grid: tuple[int, int], heads: int) -> Tensor:
    z = pooled_tokens(s / "dilation_predictor", x, grid) if "dilation_predictor" in s else x
    x = x + s["gamma1"] * token_mixing(s / "attn", (s / "norm1").layer_norm(z, 1e-6), heads)
    y = (s / "norm2").layer_norm(x, 1e-6)
    if "mlp.se" in s:
        y = squeeze_excite(s / "mlp" / "se", conv_mlp(s / "mlp", y, grid, True), grid)
    else:
        y = channel_attention(s / "mlp", y, grid)
    return x + s["gamma2"] * y


def class_attention_block(s: Scope, x: Tensor, heads: int) -> Tensor:
    y = (s / "norm1").layer_norm(x, 1e-6)
    a = s / "attn"
    q, k, v = (heads_of((a / n).linear(t), heads) for n, t in (("q", y[:, :1]), ("k", y), ("v", y)))
    attn = (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(-1)
    c = (a / "proj").linear((attn @ v).transpose(1, 2).reshape(x.shape[0], 1, -1))
    x = x + s["gamma1"] * torch.cat([c, y[:, 1:]], 1)
    x = (s / "norm2").layer_norm(x, 1e-6)
    c = s["gamma2"] * (s / "mlp" / "fc2").linear(F.gelu((s / "mlp" / "fc1").linear(x[:, :1])))
    return x + torch.cat([c, x[:, 1:]], 1)


def fourier_position(s: Scope, grid: tuple[int, int], paired: bool = True) -> Tensor:
    j = torch.arange(32)
    w = 10000 ** (2 * (j // 2 if paired else j / 2) / 32)
    axes = []
    for n in grid:
        u = 2 * torch.pi * torch.arange(1, n + 1)[:, None] / (n + 1e-6) / w
        axes.append(torch.where(j % 2 == 0, u.sin(), u.cos()))
    rows, columns = axes
    features = torch.cat([rows[:, None].expand(-1, grid[1], -1), columns[None].expand(grid[0], -1, -1)], -1)
    return to_tokens((s / "token_projection").conv(features.permute(2, 0, 1)[None].float()))


def convolutional_embedding(s: Scope, x: Tensor) -> Tensor:
    for i in (0, 2, 4, 6):
        x = (s / "proj" / i / 1).batch_norm((s / "proj" / i / 0).conv(x, stride=2, padding=1))
        x = F.gelu(x) if i < 6 else x
    return x


def convnext_block(s: Scope, x: Tensor) -> Tensor:
    y = (s / "norm").channel_norm((s / "conv_dw").conv(x, padding=3, groups=x.shape[1]))
    y = (s / "mlp" / "fc2").conv(F.gelu((s / "mlp" / "fc1").conv(y)))
    return x + s["gamma"][:, None, None] * y


def hybrid_stages(b: Scope, x: Tensor) -> list[Tensor]:
    x = (b / "stem" / 1).channel_norm((b / "stem" / 0).conv(x, stride=4))
    maps = []
    for i in range(2):
        stage = b / "stages" / i
        if i:
            x = (stage / "downsample" / 1).conv((stage / "downsample" / 0).channel_norm(x), stride=2)
        for k in range(stage.count("blocks")):
            x = convnext_block(stage / "blocks" / k, x)
        maps.append(x)
    return maps


def hybrid_embedding(s: Scope, x: Tensor) -> Tensor:
    return (s / "proj").conv(hybrid_stages(s / "backbone", x)[-1], stride=2)


def fan(weights: Weights, x: Tensor, heads: int | tuple[int, int], training: bool = False) -> tuple[Tensor, Tensor | None]:
    """FAN-ViT and FAN-Hybrid. `heads`: of the blocks, and where the width changes, of the blocks after it."""
    s = Scope(weights, training=training)
    x = (hybrid_embedding if "patch_embed.backbone" in s else convolutional_embedding)(s / "patch_embed", x)
    grid = (x.shape[2], x.shape[3])
    x = to_tokens(x) + fourier_position(s / "pos_embed", grid)
    h, last_heads = heads if isinstance(heads, tuple) else (heads, heads)
    for i in range(s.count("blocks")):
        block = s / "blocks" / i
        x = fan_block(block, x, grid, h)
        if "downsample" in block:
            y = (block / "downsample" / "proj").conv(to_map(x, grid), stride=2, padding=1)
            grid, h = (y.shape[2], y.shape[3]), last_heads
            x = (block / "downsample" / "norm").layer_norm(to_tokens(y), 1e-5)
    x = torch.cat([s["cls_token"].expand(x.shape[0], -1, -1), x], 1)
    for i in range(s.count("cls_attn_blocks")):
        x = class_attention_block(s / "cls_attn_blocks" / i, x, h)
    x = (s / "norm").layer_norm(x, 1e-6)
    return (s / "head").linear(x[:, 0]), (s / "aux_head").linear(x[:, 1:]) if "aux_head" in s else None


def windows_of(x: Tensor, m: int = 7) -> Tensor:
    B, H, W, C = x.shape
    x = x.reshape(B, H // m, m, W // m, m, C).transpose(2, 3)
    return x.reshape(-1, m * m, C)  # B H W C -> B*windows m*m C


def window_attention(s: Scope, x: Tensor, heads: int, mask: Tensor | None, m: int = 7) -> Tensor:
    q, k, v = (heads_of(t, heads) for t in (s / "qkv").linear(x).chunk(3, -1))
    i = torch.arange(m)
    difference = i[:, None] - i + m - 1  # m m
    rows = difference.repeat_interleave(m, 0).repeat_interleave(m, 1)
    columns = difference.repeat(m, m)
    bias = s["relative_position_bias_table"][rows * (2 * m - 1) + columns].permute(2, 0, 1)
    attn = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1) + bias
    if mask is not None:
        attn = (attn.reshape(-1, mask.shape[0], *attn.shape[1:]) + mask[:, None]).reshape(attn.shape)
    out = attn.softmax(-1) @ v
    return (s / "proj").linear(out.transpose(1, 2).reshape(x.shape))


def swin_block(s: Scope, x: Tensor, heads: int, shift: int, m: int = 7) -> Tensor:
    B, H, W, C = x.shape
    y = (s / "norm1").layer_norm(x, 1e-5)
    y = torch.roll(y, (-shift, -shift), (1, 2)) if shift else y
    y = window_attention(s / "attn", windows_of(y), heads, s["attn_mask"] if shift else None)
    y = y.reshape(B, H // m, W // m, m, m, C).transpose(2, 3).reshape(B, H, W, C)
    x = x + (torch.roll(y, (shift, shift), (1, 2)) if shift else y)
    y = (s / "norm2").layer_norm(x, 1e-5).reshape(B, H * W, C)
    if "mlp.q" in s:
        y = channel_attention(s / "mlp", y, (H, W), residual=False)
    else:
        y = (s / "mlp" / "fc2").linear(F.gelu((s / "mlp" / "fc1").linear(y)))
    return x + y.reshape(x.shape)


def fan_swin(weights: Weights, x: Tensor, training: bool = False) -> Tensor:
    s = Scope(weights, training=training)
    x = (s / "patch_embed" / "proj").conv(x, stride=4)
    x = (s / "patch_embed" / "norm").layer_norm(x.permute(0, 2, 3, 1), 1e-5)
    for i in range(4):
        stage = s / "layers" / i
        heads = (stage / "blocks" / 0 / "attn")["relative_position_bias_table"].shape[1]
        for b in range(stage.count("blocks")):
            x = swin_block(stage / "blocks" / b, x, heads, 3 * (b % 2 == 1 and x.shape[1] > 7))
        if i < 3:
            corners = [x[:, r::2, c::2] for r, c in ((0, 0), (1, 0), (0, 1), (1, 1))]
            x = (stage / "downsample" / "norm").layer_norm(torch.cat(corners, -1), 1e-5)
            x = (stage / "downsample" / "reduction").linear(x)
    return (s / "head").linear((s / "norm").layer_norm(x, 1e-5).mean((1, 2)))


def rvt_attention(s: Scope, x: Tensor, heads: int) -> Tensor:
    q, k, v = (heads_of(t, heads) for t in (s / "qkv").linear(x).chunk(3, -1))
    scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)
    if "att_mask" in s:
        scores = scores * torch.sigmoid(s["att_mask"])
    return (s / "proj").linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


def rvt_ffn(s: Scope, x: Tensor, grid: tuple[int, int]) -> Tensor:
    if "dwconv" not in s:
        return (s / "fc2").linear(F.gelu((s / "fc1").linear(x)))
    y = F.gelu((s / "bn1").batch_norm((s / "fc1").conv(to_map(x, grid))))
    y = F.gelu((s / "bn2").batch_norm((s / "dwconv").conv(y, padding=1, groups=y.shape[1])))
    return to_tokens((s / "bn3").batch_norm((s / "fc2").conv(y)))


def rvt(weights: Weights, x: Tensor, head_dim: int, training: bool = False) -> Tensor:
    s = Scope(weights, training=training)
    p = s / "patch_embed" / "proj"
    x = F.max_pool2d((p / 1).batch_norm((p / 0).conv(x, stride=2, padding=2)), 3, 2, 1)
    x = (p / 3).conv(x, stride=4)
    stages = s.count("transformers")
    for i in range(stages):
        grid = (x.shape[2], x.shape[3])
        x = to_tokens(x)
        stage = s / "transformers" / i
        for b in range(stage.count("blocks")):
            block = stage / "blocks" / b
            z = pooled_tokens(block / "dilation_predictor", x, grid) if "dilation_predictor" in block else x
            x = x + rvt_attention(block / "attn", (block / "norm1").layer_norm(z, 1e-6), x.shape[-1] // head_dim)
            x = x + rvt_ffn(block / "mlp", (block / "norm2").layer_norm(x, 1e-6), grid)
        x = to_map(x, grid)
        if i + 1 < stages:
            x = (s / "pools" / i / "conv").conv(x, stride=2, padding=1, groups=x.shape[1])
    return (s / "head").linear((s / "norm").layer_norm(x.mean((2, 3)), 1e-6))


FAN_HEADS: dict[str, int | tuple[int, int]] = {
    "fan_tiny_12_p16_224": 4,
    "fan_small_12_p16_224": 8,
    "fan_base_18_p16_224": 8,
    "fan_large_24_p16_224": 10,
    "fan_tiny_8_p4_hybrid": 8,
    "fan_small_12_p4_hybrid": 8,
    "fan_base_16_p4_hybrid": 8,
    "fan_large_16_p4_hybrid": 10,
    "fan_Xlarge_16_p4_hybrid": (11, 16),
}


def forward(published_name: str, weights: Weights, x: Tensor, training: bool = False) -> tuple[Tensor, Tensor | None]:
    """Class logits [B, K] and, for networks with a token head, token logits [B, N, K]."""
    if "swin" in published_name:
        return fan_swin(weights, x, training), None
    if "rvt" in published_name:
        return rvt(weights, x, 32 if "tiny" in published_name else 64, training), None
    name = re.sub(r"^tap_|_(se_attn|token|cifar\d+)$", "", published_name)
    return fan(weights, x, FAN_HEADS[name], training)
