"""`python -m capture_cp.cli`, where no script is installed."""

from capture_cp.cli import main

if __name__ == "__main__":
    main()
