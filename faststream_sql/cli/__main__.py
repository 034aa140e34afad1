"""`python -m faststream_sql.cli`."""

import sys

from faststream_sql.cli import main

if __name__ == "__main__":
    sys.exit(main())
