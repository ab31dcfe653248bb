"""Say which Posable this is."""

import posable as ps

print(f"posable {ps.__version__}")
