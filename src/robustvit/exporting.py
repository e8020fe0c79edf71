"""The public home of the exporters, which are in `models/exporting`."""

from robustvit.models.exporting import export_onnx, export_program

__all__ = ["export_onnx", "export_program"]
