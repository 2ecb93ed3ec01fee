"""python -m openapi: write the served documents to openapi/generated, for people and for diffs."""

from pathlib import Path

from openapi import generate

if __name__ == "__main__":
    for path in generate.write(Path(__file__).parent / "generated"):
        print(path)  # noqa: T201 -- says what it wrote
