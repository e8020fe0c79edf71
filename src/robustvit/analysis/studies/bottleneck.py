"""Self-attention as an iteration that groups points: the information bottleneck (FAN 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustvit.analysis.drawing import Plate, colour, new_figure, plain_axes
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import Findings, Study

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["Bottleneck"]

STEPS = 12
DEFINITION = (
    "each centre becomes the mean of the points, weighted by softmax over clusters of -(x - mu)^T Sigma^-1 (x - mu): the "
    "iteration of the information bottleneck with a shared covariance, which equals softmax(Q K^T / d) V where "
    "mu^T Sigma^-1 mu is the same for all clusters"
)


class Bottleneck(Study[Options]):
    """Points of four Gaussians, grouped by the iteration that self-attention resembles."""

    name = "bottleneck"
    summary = "self-attention as an iteration that groups points"
    needs = ()
    options = Options

    def run(self, subject: Subject, options: Options) -> Finding:
        import torch

        from robustvit.analysis.bottleneck import group_points

        generator = torch.Generator().manual_seed(options.seed)
        middles = torch.tensor([[-2.0, -1.5], [2.0, -1.5], [-1.6, 2.0], [2.2, 1.8]], dtype=torch.float64)
        covariance = torch.tensor([[0.35, 0.08], [0.08, 0.3]], dtype=torch.float64)
        noise = torch.randn(4, 60, 2, generator=generator, dtype=torch.float64) @ torch.linalg.cholesky(covariance).T
        points = (middles[:, None] + noise).flatten(0, 1)
        start = 0.8 * torch.randn(4, 2, generator=generator, dtype=torch.float64)
        centres = torch.stack(group_points(points, start, covariance, STEPS))  # steps + 1, 4, 2
        moved = float((centres[-1] - centres[-2]).norm(dim=1).max())
        numbers = {"steps": STEPS, "points": len(points), "last_move": moved}
        return Finding(DEFINITION, numbers, {"points": points.numpy(), "centres": centres.numpy()})

    def plates(self, findings: Findings, options: Options) -> list[Plate]:
        finding = next(iter(findings.values()))
        points, centres = finding.arrays["points"], finding.arrays["centres"]  # P 2, steps C 2
        shown = [0, 1, 3, len(centres) - 1]
        figure = new_figure(11, 3.1)
        for axis, step in zip(figure.subplots(1, len(shown), sharex=True, sharey=True), shown, strict=True):
            nearest = ((points[:, None] - centres[step][None]) ** 2).sum(-1).argmin(1)
            for c in range(centres.shape[1]):
                axis.scatter(*points[nearest == c].T, s=7, color=colour(c), alpha=0.45, linewidths=0)
                axis.plot(*centres[: step + 1, c].T, color="black", linewidth=1)
                axis.scatter(*centres[step, c], s=70, marker="X", color=colour(c), edgecolors="black", zorder=3)
            plain_axes(axis, "start" if step == 0 else f"after {step} step{'s' * (step > 1)}")
            axis.set_aspect("equal")
        reading = (
            "Self-attention as an iteration that groups points (FAN, section 2.3): every cross moves to the mean of the "
            "points, weighted by how well they fit it. Where the crosses have the same norm, this is the step of attention "
            "with the crosses as keys. No network is involved."
        )
        return [Plate("bottleneck", "Attention as grouping", reading, figure)]
