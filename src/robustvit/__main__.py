"""`python -m robustvit` is `robustvit`."""

import sys

from robustvit.cli import main

if __name__ == "__main__":
    sys.exit(main())
