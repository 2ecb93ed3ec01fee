"""python -m apiserver."""

from apiserver import cli

if __name__ == "__main__":
    cli.main()
