"""``python -m fitroom``."""

import sys

from fitroom.commands import main

sys.exit(main())
