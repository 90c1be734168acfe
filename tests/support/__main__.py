"""Write docs/support anew, all tables or those that are named: ``python -m tests.support [NAME...]``."""

import sys

from tests.support.table import TABLES, write

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        write(name)
