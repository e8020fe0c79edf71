"""ImageNet-V2: folders 0 to 999, which are the numbers of ImageNet's classes, not names to be sorted."""

from __future__ import annotations

from pathlib import Path

from robustvit.data.readers.class_folders import LayoutError, plain_name

__all__ = ["class_numbers", "v2_folder"]

CLASSES = 1000
_USUAL = "imagenetv2matchedfrequency"


def v2_folder(data: Path) -> Path:
    """The folder of ImageNet-V2 in `data`: that of its name, or of one of its three sets as they unpack; else `data` itself.

    Of several sets it is matched-frequency, the one that papers print where they name none.

    Raises:
        LayoutError: there are several, and this one is not among them.
    """
    found = [entry for entry in sorted(data.iterdir()) if entry.is_dir() and plain_name(entry.name).startswith("imagenetv2")]
    if plain := [entry for entry in found if plain_name(entry.name) == "imagenetv2"]:
        return v2_folder(plain[0])  # which may have the three sets
    if len(found) < 2:
        return found[0] if found else data
    usual = [entry for entry in found if plain_name(entry.name).startswith(_USUAL)]
    if len(usual) != 1:
        names = ", ".join(entry.name for entry in found)
        raise LayoutError(f"{data} has several sets of ImageNet-V2: {names}; give the folder of the one to measure")
    return usual[0]


def class_numbers(classes: tuple[str, ...], source: str) -> tuple[int, ...]:
    """Names of folders -> the classes of ImageNet that they are; some may be missing.

    Args:
        classes: "0", "1", ..., "999", in any order.
        source: where they are, for the message.

    Raises:
        LayoutError: one is no such number.
    """
    if odd := [name for name in classes if not (name.isascii() and name.isdecimal() and str(int(name)) == name)]:
        raise LayoutError(
            f"{source} has a folder {odd[0]!r}; ImageNet-V2 has {source}/NUMBER/IMAGE.jpeg with numbers 0 to 999"
        )
    if large := [name for name in classes if int(name) >= CLASSES]:
        raise LayoutError(f"{source} has a folder {large[0]}; the classes of ImageNet-V2 are 0 to 999")
    return tuple(map(int, classes))
