"""What starting costs: importing the package beside torch and timm, and the help of the command line.

    python benchmarks/startup.py

Each is the median over fresh processes that take turns. Targets: the import at most 0.3 s beyond torch and timm, the help
under 1 s; times are also given as a share of an import of torch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from measuring import medians

PROGRAMS = {
    "import torch": ["-c", "import torch"],
    "import torch, timm": ["-c", "import torch, timm"],
    "import torch, timm, robustvit": ["-c", "import torch, timm, robustvit; robustvit.create_model"],
    "robustvit --help": ["-m", "robustvit", "--help"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    def start(arguments: list[str]) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    times = medians({name: lambda a=arguments: start(a) for name, arguments in PROGRAMS.items()}, options.repeats)  # type: ignore[misc]
    for name, seconds in times.items():
        print(f"{name:32} {seconds:6.2f} s  {seconds / times['import torch']:5.2f}x of `import torch`")
    beyond = times["import torch, timm, robustvit"] - times["import torch, timm"]
    print(f"robustvit adds {beyond:.2f} s to torch and timm (target 0.3 s)")


if __name__ == "__main__":
    main()
