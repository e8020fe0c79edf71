"""What becomes of noise on its way through the blocks (FAN Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from robustvit.analysis.drawing import Plate, from_zero, legend, lines, new_figure
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import NoiseKind, Options
from robustvit.analysis.study import BLOCKS, Findings, Study

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["NoiseDecay", "NoiseDecayOptions"]


@dataclass(frozen=True)
class NoiseDecayOptions(Options):
    """The noise.

    Attributes:
        noise: "perturbation" or "input", see `noise_decay`.
        sigma: of the noise of "perturbation", in normalised units.
    """

    noise: NoiseKind = "perturbation"
    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in get_args(NoiseKind):
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {', '.join(get_args(NoiseKind))}")
        self.require(self.sigma > 0, "sigma", "more than 0")

    def without_effect(self) -> Mapping[str, str]:
        return {"sigma": "has no effect with --noise input, which is N(0, 1)"} if self.noise == "input" else {}


class NoiseDecay(Study[NoiseDecayOptions]):
    """The strength of noise after every block."""

    name = "noise-decay"
    summary = "what becomes of noise from block to block"
    needs = (BLOCKS,)
    options = NoiseDecayOptions

    def run(self, subject: Subject, options: NoiseDecayOptions) -> Finding:
        from robustvit.analysis.noise_decay import DEFINITIONS, noise_decay

        batches = ((batch.ids, subject.normalised(batch.pixels)) for batch in subject.batches())
        values = noise_decay(subject.network, batches, kind=options.noise, sigma=options.sigma, seed=options.seed)
        sigma = options.sigma if options.noise == "perturbation" else 1.0
        numbers = {"kind": options.noise, "sigma": sigma, "strength": values.tolist()}
        return Finding(DEFINITIONS[options.noise], numbers, {"strength": values.numpy()})

    def plates(self, findings: Findings, options: NoiseDecayOptions) -> list[Plate]:
        figure = new_figure(6.4, 3.4)
        axis = figure.subplots()
        of_blocks = {name: one.numbers["strength"] for name, one in findings.items()}
        lines(axis, of_blocks, "noise after each block", "relative strength")
        from_zero(axis)
        legend(figure, findings)
        if options.noise == "perturbation":
            reading = (
                f"Normal noise (standard deviation {options.sigma:g} in normalised units) is added to the images. The curve "
                "is how much of each block's output changes, relative to the output: a falling curve means that noise is "
                "filtered."
            )
        else:
            reading = (
                "The networks see nothing but normal noise. The curve is the size of each block's output relative to the "
                "first block's: a falling curve means that noise dies out."
            )
        return [Plate("noise-decay", "What becomes of noise", reading, figure)]

    def passes(self, images: int, options: NoiseDecayOptions) -> int:
        return 2 * images
