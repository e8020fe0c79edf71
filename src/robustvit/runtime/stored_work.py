"""Parts of a run that is not finished yet, as files that carry the fingerprint of the run.

A part is taken again only if it is whole and its fingerprint is that of the run that asks. Whatever else lies in the folder,
a damaged file or the work of another network, is named in a warning and made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from robustvit.runtime.damage import warn_of_damage, warn_unused
from robustvit.runtime.files import write_whole
from robustvit.runtime.fingerprint import is_same
from robustvit.runtime.zip_files import check_zip

__all__ = ["Part", "StoredWork"]

Work = TypeVar("Work")


@dataclass(frozen=True)
class Part:
    """One part of the work: plain values, and arrays by name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class StoredWork:
    """A folder of parts.

    Attributes:
        folder: where they are.
        fingerprint: of the run.
    """

    folder: Path
    fingerprint: str

    def below(self, name: str) -> StoredWork:
        """The parts in a folder inside, which is made."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return StoredWork(folder, self.fingerprint)

    def save(self, name: str, part: Part) -> None:
        texts = json.dumps({"fingerprint": self.fingerprint, "values": part.values})
        with write_whole(self.folder / f"{name}.npz") as file, file.open("wb") as stream:
            np.savez(stream, texts=np.array(texts), **part.arrays)  # type: ignore[arg-type]

    def load(self, name: str, read: Callable[[Part], Work]) -> Work | None:
        """What `read` makes of the part of this name; None where there is none of this run."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return None
        try:
            check_zip(path, contents=False)
            with np.load(path, allow_pickle=False) as stored:
                texts = json.loads(str(stored["texts"]))
                if is_same(str(texts["fingerprint"]), self.fingerprint):
                    return read(Part(texts["values"], {key: stored[key] for key in stored.files if key != "texts"}))
            warn_unused(path, "it is of another run")
        except Exception as error:  # damage has many faces: zip, zlib, NumPy's header, JSON, sizes beyond the memory
            warn_of_damage(path, error)
        return None

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the parts KIND-NUMBER, whoever made them."""
        ends = [path.stem.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*.npz")]
        return sorted(int(end) for end in ends if end.isdecimal())
