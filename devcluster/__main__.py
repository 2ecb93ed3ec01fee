"""python -m devcluster."""

from devcluster import cli

if __name__ == "__main__":
    cli.main()
