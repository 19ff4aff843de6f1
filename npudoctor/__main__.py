"""`python -m npudoctor` is the console script."""

from npudoctor.cli import console

if __name__ == "__main__":
    console()
