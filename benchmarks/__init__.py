"""What Posable is measured at: `python -m benchmarks list`, `python -m benchmarks [SUBJECT ...] [--quick] [--out DIR]`.

A subject is a module with a function `evidence(page)` and a line in `subjects.py`. It writes sentences, tables, plots
and values to its page; the runner makes Markdown, PNG and JSON of them, with the machine, the versions and the date.
"""

import os

os.environ["POSABLE_PLUGINS"] = "never"  # what is measured does not depend on what else is installed
