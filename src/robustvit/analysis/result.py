"""What an analysis found, as an object and as files: analysis.json, arrays.npz, figures/ and analysis.html."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robustvit.analysis.finding import Finding
from robustvit.runtime.checked_json import read_checked_json, write_checked_json
from robustvit.runtime.files import write_whole
from robustvit.runtime.page_writers import page_writer
from robustvit.runtime.zip_files import check_zip

__all__ = ["Analysis"]

ABOUT = ("pictures", "options", "versions", "created", "fingerprint")


@dataclass(frozen=True)
class Analysis:
    """What was found.

    Attributes:
        findings: analysis -> network -> finding.
        left_out: analysis -> network -> why it was not possible.
        networks: name -> parameters, input and what its labels are.
        about: images, options, versions, created, fingerprint.
    """

    findings: Mapping[str, Mapping[str, Finding]]
    left_out: Mapping[str, Mapping[str, str]]
    networks: Mapping[str, Mapping[str, Any]]
    about: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays."""
        studies = {
            what: {
                "definition": next(iter(found.values())).definition,
                "networks": {name: dict(finding.numbers) for name, finding in found.items()},
                "half_precision": {name: dict(one.half_precision) for name, one in found.items() if one.half_precision},
            }
            for what, found in self.findings.items()
        }
        left_out = {what: dict(names) for what, names in self.left_out.items()}
        networks = {name: dict(facts) for name, facts in self.networks.items()}
        return {**self.about, "networks": networks, "analyses": studies, "left_out": left_out}

    def save(self, folder: str | Path) -> Path:
        """Writes arrays.npz, figures/*.png and *.svg, analysis.html and at last analysis.json; returns the folder.

        Figures of an earlier analysis are removed.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for figure in [*folder.glob("figures/*.png"), *folder.glob("figures/*.svg"), folder / "analysis.html"]:
            figure.unlink(missing_ok=True)
        with write_whole(folder / "arrays.npz") as file, file.open("wb") as stream:
            np.savez_compressed(stream, **self._arrays())  # type: ignore[arg-type]
        self._write_figures(folder)
        return folder

    def complete(self, folder: Path) -> None:
        """Draws the figures and the page again if one of them is missing in `folder`, which has this analysis."""
        stored = json.loads((folder / "analysis.json").read_text())
        if not all((folder / name).is_file() for name in stored["files"]):
            self._write_figures(folder)

    def _write_figures(self, folder: Path) -> None:
        files = page_writer("analysis")(self, folder)
        arrays = {what: {name: list(one.arrays) for name, one in found.items()} for what, found in self.findings.items()}
        about = {**self.to_json(), "files": files, "arrays": arrays}
        write_checked_json(folder / "analysis.json", about, allow_nan=False)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            f"{what}/{name}/{key}": array
            for what, found in self.findings.items()
            for name, finding in found.items()
            for key, array in finding.arrays.items()
        }

    @staticmethod
    def load(folder: str | Path) -> Analysis:
        """Reads what `save` wrote.

        Raises:
            FileNotFoundError: there is no analysis.json.
            Exception: what it finds is damaged.
        """
        stored = read_checked_json(Path(folder, "analysis.json"))
        findings: dict[str, dict[str, Finding]] = {}
        check_zip(Path(folder, "arrays.npz"), contents=False)
        with np.load(Path(folder, "arrays.npz"), allow_pickle=False) as arrays:
            for what, study in stored["analyses"].items():
                for name, numbers in study["networks"].items():
                    own = {key: arrays[f"{what}/{name}/{key}"] for key in stored["arrays"][what][name]}
                    changes = study.get("half_precision", {}).get(name, {})
                    found = Finding(study["definition"], numbers, own, half_precision=changes)
                    findings.setdefault(what, {})[name] = found
        about = {name: stored[name] for name in ABOUT}
        return Analysis(findings, stored["left_out"], stored["networks"], about)
