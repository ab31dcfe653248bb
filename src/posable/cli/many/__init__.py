"""One verb over many files: on all cores of this machine, or on a Dask cluster.

It knows nothing of verbs. A verb gives it a function `work(args) -> Told` that does one file: it reads `args.file`,
writes `args.out` and `args.report`, and says what became of it.
"""

from posable.cli.many.calling import add, asked, run
from posable.cli.many.jobs import Told

__all__ = ["Told", "add", "asked", "run"]
