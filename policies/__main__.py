"""`python -m policies` from the root of the repository: write the chart's copy of the policies."""

from pathlib import Path

from policies import bundle


def main() -> None:
    """Write the file anew, whole or not at all different."""
    path = Path(bundle.FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(bundle.chart_file(), encoding="utf-8")


if __name__ == "__main__":
    main()
