"""What ncu profiles: draws the inputs and runs the launches once. Usage: python -m … JOB.json."""

import json
import sys
from pathlib import Path

from services.profiler.cuda.timing_run import run_once

__all__ = ["main"]


def main() -> None:
    """Run the job's only subject once."""
    run_once(json.loads(Path(sys.argv[1]).read_text()))


if __name__ == "__main__":
    main()
