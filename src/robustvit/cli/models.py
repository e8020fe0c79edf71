"""`robustvit models`: the table of our networks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape
from rich.table import Table

from robustvit.cli.console import print_json, steps, tables

if TYPE_CHECKING:
    from robustvit.models.published import PublishedWeights
    from robustvit.models.published_costs import PublishedCost
    from robustvit.recording.block_shapes import BlockShape

__all__ = ["NetworkRow", "cost_table", "describe_networks", "matching_networks", "models", "network_table"]


@dataclass(frozen=True)
class NetworkRow:
    """One network of the table.

    Args:
        name: as `create_model` takes it.
        parameters: their number, for `num_classes`.
        input_size: (channels, height, width) it is made for.
        num_classes: outputs of the classifier it is made with.
        reductions: stride of every feature map that `features_only=True` offers, in pixels.
        weights: the published files.
        shipped: tag of the weights that come with the package, "" for none.
        shapes: of its blocks, from input to output.
        flops: multiply-adds of an image of `input_size`; None where they were not counted.
        printed: what the papers print.
    """

    name: str
    parameters: int
    input_size: tuple[int, ...]
    num_classes: int
    reductions: tuple[int, ...]
    weights: tuple[PublishedWeights, ...]
    shipped: str = ""
    shapes: tuple[BlockShape, ...] = ()
    flops: int | None = None
    printed: tuple[PublishedCost, ...] = ()

    def to_json(self) -> dict[str, Any]:
        files = [asdict(w) | {"needs_browser": w.url is None} for w in self.weights]
        lists = {"weights": files, "shapes": list(map(asdict, self.shapes)), "printed": list(map(asdict, self.printed))}
        return {**vars(self), **lists}


def models(
    pattern: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PATTERN")] = "*",
    *,
    pretrained: bool = False,
    weights: bool = False,
    cost: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """List the networks: parameters, input size, strides of the feature maps, published weights; or what they cost.

    Args:
        pattern: a name, a part of one (swin), a shell pattern ('fan_*_tiny') or a published name (fan_tiny_12_p16_224);
            '*/segformer' for segmenters, whose backbone may also be any of timm's.
        pretrained: only networks with published weights.
        weights: show the weight files instead: address, the authors' scores, how to download those that need a browser.
        cost: show blocks, width, heads and FLOPs instead, beside what the papers print. FLOPs are multiply-adds of one image,
            of classifiers; counting takes about a second for each network.
        as_json: print JSON; FLOPs are in it with --cost.
    """
    if cost and weights:
        raise ValueError("--cost and --weights are two tables; give one of them")
    rows = describe_networks(matching_networks(pattern, pretrained=pretrained), cost=cost)
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    console = tables()
    if weights:
        for row in rows:
            if row.shipped:
                console.print(f"[bold]{row.name}.{row.shipped}[/bold]\n  comes with the package", soft_wrap=True)
            for file in row.weights:
                console.print(_weight_lines(file), soft_wrap=True)
        count = sum(len(row.weights) + bool(row.shipped) for row in rows)
        console.print(f"{_count(count, 'weight file')} of {_count(len(rows), 'network')}; scores are the authors', in percent")
        return
    if cost:
        console.print(cost_table(rows))
        console.print(f"{_count(len(rows), 'network')}; FLOPs are multiply-adds of one image, in papers of 224x224 pixels")
        return
    console.print(network_table(rows))
    needs_browser = any(file.url is None for row in rows for file in row.weights)
    hint = "; * needs a browser, see robustvit models NAME --weights" if needs_browser else ""
    console.print(f"{_count(len(rows), 'network')}{hint}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def matching_networks(pattern: str, *, pretrained: bool = False) -> list[str]:
    """Names of our networks that `pattern` means, see `models`.

    Raises:
        ValueError: there are none; the message has the nearest names.
    """
    from robustvit.models.names import OFFICIAL
    from robustvit.models.published import PUBLISHED
    from robustvit.models.registry import list_models
    from robustvit.models.shipped import SHIPPED, SHIPPED_FOLDERS
    from robustvit.runtime.spelling import nearest

    own = list_models("*/*") if "/" in pattern else list_models()
    with_weights = [*SHIPPED, *SHIPPED_FOLDERS, *(w.architecture for w in PUBLISHED)]
    ours = [*dict.fromkeys([*own, *with_weights])]
    name = pattern.partition(".")[0]  # fan_hybrid_base.tapadl_in1k is a network with a tag
    backbone, slash, head = name.partition("/")
    wanted = (OFFICIAL[backbone].architecture if backbone in OFFICIAL else backbone) + slash + head
    names = [name for name in ours if fnmatch(name, wanted)] or [name for name in ours if fnmatch(name, f"*{wanted}*")]
    if not names:
        hint = nearest(pattern, [*ours, *OFFICIAL])
        raise ValueError(f"no network matches {pattern!r}{hint or '; `robustvit models` lists them all'}")
    if pretrained:
        chosen = [name for name in names if name in with_weights]
        if not chosen:
            raise ValueError(f"there are no published weights of {', '.join(names)}; omit --pretrained to list them")
        return chosen
    return names


def describe_networks(names: list[str], *, cost: bool = False) -> list[NetworkRow]:
    """The rows of the table, classifiers first, families together, small networks first. Each is built on the meta device.

    Args:
        names: of networks.
        cost: count the FLOPs of classifiers.
    """
    from robustvit.models.cost import multiply_adds
    from robustvit.models.published import PUBLISHED
    from robustvit.models.published_costs import published_costs
    from robustvit.models.registry import create_model
    from robustvit.models.shipped import SHIPPED, SHIPPED_FOLDERS, SHIPPED_TAG
    from robustvit.recording.block_shapes import block_shapes

    tags = {name: weights.tag for name, weights in SHIPPED.items()} | dict.fromkeys(SHIPPED_FOLDERS, SHIPPED_TAG)
    rows = []
    for name in steps(names, "Counting FLOPs" if cost else "Counting parameters"):
        network = create_model(name, device="meta")
        size = tuple(network.pretrained_cfg["input_size"])
        rows.append(
            NetworkRow(
                name=name,
                parameters=sum(p.numel() for p in network.parameters()),
                input_size=size,
                num_classes=network.num_classes,
                reductions=_strides(network),
                weights=tuple(w for w in PUBLISHED if w.architecture == name),
                shipped=tags.get(name, ""),
                shapes=block_shapes(network),
                flops=multiply_adds(network, size) if cost and "/" not in name else None,
                printed=published_costs(name),
            )
        )
    families = ("fan_vit", "fan_hybrid", "fan_swin", "rvt", "vit")

    def place(row: NetworkRow) -> tuple[bool, list[bool], int]:
        return "/" not in row.name, [row.name.startswith(family) for family in families], -row.parameters

    return sorted(rows, key=place, reverse=True)


def _strides(network: Any) -> tuple[int, ...]:
    """Of its feature maps; dense networks say them, classifiers describe their maps."""
    return network.strides if hasattr(network, "strides") else tuple(level["reduction"] for level in network.feature_info)


def network_table(rows: list[NetworkRow]) -> Table:
    """The table as `rich` prints it."""
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("network", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("input", justify="right", no_wrap=True)
    table.add_column("strides", no_wrap=True)
    table.add_column("published weights (tags)")
    for row in rows:
        strides = " ".join(map(str, sorted(set(row.reductions))))
        own = [f"{row.shipped} (in the package)"] if row.shipped else []
        tags = ", ".join([*own, *(w.tag + ("" if w.url else "*") for w in row.weights)])
        table.add_row(row.name, f"{row.parameters:,}", "x".join(map(str, row.input_size[1:])), strides, tags)
    return table


def cost_table(rows: list[NetworkRow]) -> Table:
    """What networks are made of and what an image costs, as `rich` prints it."""
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("network", no_wrap=True)
    for heading in ("blocks", "width", "heads"):
        table.add_column(heading, justify="right")
    for heading in ("parameters", "FLOPs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("in papers")
    for row in rows:
        shape = (" ".join(str(getattr(one, part)) for one in row.shapes) for part in ("blocks", "width", "heads"))
        flops = "" if row.flops is None else f"{row.flops / 1e9:.3f} G"
        printed = "; ".join(f"{one.parameters:g} M, {one.flops:g} G ({one.source})" for one in row.printed)
        table.add_row(row.name, *shape, f"{row.parameters:,}", flops, printed)
    return table


def _weight_lines(file: PublishedWeights) -> str:
    lines = [f"[bold]{file.architecture}.{file.tag}[/bold]", f"  published as  {file.published_name}"]
    if file.url:
        lines.append(f"  address       {escape(file.url)}")
    else:
        lines.append(f"  what to do    {escape(file.how_to_get())}")
    if file.reported:
        lines.append("  reported      " + ", ".join(f"{name} {value}" for name, value in file.reported.items()))
    return "\n".join(lines)
