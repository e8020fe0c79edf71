"""Datasets in archives, through timm's readers: .tar files, webdataset's shards (`wds/...`), Hugging Face's (`hfds/...`)."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from PIL import Image

from robustvit.data.readers.class_folders import LayoutError, order_note
from robustvit.data.samples import IMAGE_SUFFIXES, ReaderSamples, Sample, UnreadablePictureError, read_image
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.image_files import MOST_BYTES

__all__ = ["ShardImages", "hfds_images", "tar_images", "wds_images"]


def tar_images(path: Path, *, ignore_orientation: bool = False) -> ReaderSamples:
    """The images of a tar file with .../CLASS/IMAGE or CLASS.tar in it.

    Raises:
        LayoutError: it is damaged, has no images, or mixes folders of classes.
    """
    from timm.data.readers.reader_image_in_tar import ReaderImageInTar

    try:
        with _more_suffixes():  # no index: timm unpickles it, and would run code that someone put into one
            reader = ReaderImageInTar(str(path), cache_tarinfo=False)
    except (ValueError, tarfile.TarError, EOFError) as error:
        told = str(error) if isinstance(error, tarfile.TarError | EOFError) else "expected CLASS/IMAGE.jpg in it"
        raise LayoutError(f"{path} has no images that can be read: {told}") from error
    seen = [not Path(info.path).name.startswith(".") for info, _, _ in reader.samples]
    reader.samples, reader.targets = reader.samples[seen], reader.targets[seen]
    places = {str(Path(info.path).parent.parent) for info, _, child in reader.samples if child is None}
    if len(places) > 1:
        raise LayoutError(
            f"{path} has class folders in several places ({', '.join(sorted(places)[:4])}), which would be mixed; "
            "give an archive of one dataset, or unpack it and give one of the folders"
        )
    note = order_note(tuple(reader.class_name_to_idx))
    return ReaderSamples(reader, str(path), order_note=note, ignore_orientation=ignore_orientation)


@contextmanager
def _more_suffixes() -> Iterator[None]:
    """timm's reader of tar files takes the suffixes of images from a global."""
    from timm.data.readers import img_extensions

    before = img_extensions.get_img_extensions()
    img_extensions.set_img_extensions(sorted(IMAGE_SUFFIXES))
    try:
        yield
    finally:
        img_extensions.set_img_extensions(before)


def hfds_images(source: str, *, ignore_orientation: bool = False) -> ReaderSamples:
    """`hfds/NAME`: a dataset of the hub or a local folder, with columns image and label; its validation or test split."""
    name = source.partition("/")[2]
    try:
        from timm.data.readers.reader_hfds import ReaderHfds
    except ImportError as error:
        raise RuntimeError(f"{source} needs the package datasets: pip install datasets") from error
    reasons = []
    for split in ("validation", "val", "test"):
        try:
            reader = ReaderHfds(name, split=split)
        except (ValueError, KeyError) as error:  # no such split or column
            reasons.append(f"{split}: {error}")
            continue
        labels = list(reader.dataset[reader.label_key])
        return ReaderSamples(reader, source, labels=labels, ignore_orientation=ignore_orientation)
    raise LayoutError(f"{source} has no split validation or test with columns image and label ({'; '.join(reasons)})")


def wds_images(source: str, *, ignore_orientation: bool = False) -> ShardImages:
    """`wds/FOLDER` with timm's info.json in it, or `wds/FOLDER/NAME-{0000..0063}.tar`: the shards, with or without `|COUNT`.

    Raises:
        LayoutError, FileNotFoundError: there is no such split, or a shard is missing.
    """
    from timm.data.readers import reader_wds

    if reader_wds.wds is None:
        raise RuntimeError(f"{source} needs the package webdataset: pip install webdataset")
    place = source.partition("/")[2]
    folder, _, split = place.rpartition("/") if ".tar" in place else (place, "", "")
    chosen = split or _split_in_info(source, Path(folder))
    try:
        reader = reader_wds.ReaderWds(root=folder or ".", split=chosen)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise LayoutError(f"{source}: the shards of {chosen} are not described as timm does ({reason})") from error
    files = [f"{reader.root}/{name}" for name in reader.split_info.filenames]
    is_local = list(map(_is_local, files))
    if missing := [file for file, local in zip(files, is_local, strict=True) if local and not Path(file).is_file()]:
        raise FileNotFoundError(f"{source}: there is no shard {missing[0]}")
    if not reader.num_samples and not all(is_local):
        raise LayoutError(f"{source}: the number of images in the shards is unknown; add it, as in {source}|50000")
    count = reader.num_samples or sum(map(_count, files))
    return ShardImages(files, source, count, reader.split_info.alt_label, ignore_orientation=ignore_orientation)


def _is_local(file: str) -> bool:
    return not any(mark in file for mark in ("://", "pipe:", "::"))


def _split_in_info(source: str, folder: Path) -> str:
    info = next((path for name in ("_info.json", "info.json") if (path := folder / name).is_file()), None)
    try:
        splits = set(json.loads(info.read_text())["splits"]) if info else set()
    except (ValueError, TypeError, KeyError) as error:
        raise LayoutError(
            f"{info} cannot be read ({type(error).__name__}: {error}); expected timm's, with its splits"
        ) from error
    split = next((name for name in ("validation", "val", "test") if name in splits), None)
    if split is None:
        raise LayoutError(
            f"{source}: expected {folder}/info.json with a split validation or test, or the names of the shards, as in "
            f"{source}/validation-{{0000..0063}}.tar"
        )
    return split


def _key(member: str) -> str:
    """What the files of one sample have in common: their path up to the first dot of the name."""
    folder, _, name = member.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


def _count(shard: str) -> int:
    """Samples in a shard, a damaged rest counted as one."""
    keys: set[str] = set()
    try:
        with tarfile.open(shard) as archive:
            keys.update(_key(member.name) for member in archive if member.isfile())
    except (tarfile.TarError, EOFError):
        return len(keys) + 1
    return len(keys)


def _check_members(shard: str) -> None:
    """webdataset reads every member whole, and a sparse one may be far larger than its shard."""
    if not _is_local(shard):
        return
    large = None
    with suppress(tarfile.TarError, EOFError), tarfile.open(shard) as archive:  # what comes before the damage is read
        large = next((member for member in archive if member.isfile() and member.size > MOST_BYTES), None)
    if large is not None:
        raise ValueError(f"{large.name} in it has {large.size:,} bytes, which is too large for an image")


class ShardImages:
    """A stream of images from shards of webdataset.

    timm's reader says which shards there are. It would leave out damaged images without a word, and deal the shards out to
    the processes of a distributed run; so samples are taken from webdataset as they are, and decoded when they are opened.
    """

    classes: tuple[str, ...] = ()

    def __init__(
        self,
        files: Sequence[str],
        name: str,
        length: int,
        alternative_label: str = "",
        *,
        ignore_orientation: bool = False,
    ) -> None:
        self.files, self.name, self.length, self.alternative_label = files, name, length, alternative_label
        self.ignore_orientation = ignore_orientation

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Sample]:
        import webdataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

        for file in self.files:
            shard = Path(file).stem
            try:
                _check_members(file)
                samples = webdataset.DataPipeline(webdataset.SimpleShardList([file]), webdataset.tarfile_to_samples())
                for sample in samples:
                    yield self._image(f"{shard}/{sample['__key__']}", sample)
            except (tarfile.TarError, OSError, EOFError, ValueError) as error:
                told = error.args[0] if error.args else type(error).__name__  # webdataset adds its objects
                yield Sample(shard, _refusal(f"the rest of the shard cannot be read: {told}"), lambda: 0)

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """Name, size and time of the shards on disk; of others, the address alone."""
        digest.add(list(self.files), self.alternative_label)
        digest.add_files(Path(), [file for file in self.files if Path(file).is_file()])

    def _image(self, name: str, sample: dict[str, Any]) -> Sample:
        try:
            label = json.loads(sample["json"])[self.alternative_label] if self.alternative_label else sample["cls"]
            pixels = next(value for suffix, value in sample.items() if f".{suffix.lower()}" in IMAGE_SUFFIXES)
            label = int(label)
            return Sample(name, lambda: read_image(pixels, ignore_orientation=self.ignore_orientation), lambda: label)
        except (KeyError, ValueError, StopIteration):
            parts = ", ".join(k for k in sample if k[:2] != "__")
            return Sample(name, _refusal(f"it has {parts}; expected jpg and cls"), lambda: 0)


def _refusal(reason: str) -> Callable[[], Image.Image]:
    def refuse() -> Image.Image:
        raise UnreadablePictureError(reason)

    return refuse
