"""Tests the page: its types, its core and words, and the built page in Chromium.

    python web/test.py                 npm run check, test, e2e
    python web/test.py pictures        npm run pictures alone, or whatever scripts are named

Where there is no Node, and none can be fetched, it says loudly that the page was not tested. So do
the tests in a browser (web/e2e/setup.ts) where there is none. FORERUN_REQUIRE_BROWSER=1 makes both
an error.
"""

from __future__ import annotations

import os
import sys

from build import BuildError, fetch_node, found_npm, npm

SCRIPTS = ("check", "test", "e2e")


def main() -> int | str:
    fetch_node()
    if found_npm() is None:
        message = "the page (web/) was not tested: there is no Node, and none could be fetched"
        if os.environ.get("FORERUN_REQUIRE_BROWSER") == "1":
            return message
        print(f"\n*** SKIPPED: {message} ***\n", file=sys.stderr)
        return 0
    try:
        for script in sys.argv[1:] or SCRIPTS:
            npm("run", script, show=True)
    except BuildError as error:
        return str(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
