"""`python -m auditor`: the ampaudit command of this interpreter."""

from auditor.cli.main import run

if __name__ == "__main__":
    run()
