"""Motion: from markers and paths to clean animation."""

from posable.tracking.bodyplan import BodyPlan, body_plan
from posable.tracking.calibration import Calibration, calibrate
from posable.tracking.contacts import Contacts, find_contacts
from posable.tracking.following import Followed, follow
from posable.tracking.keyframes import keyframes
from posable.tracking.smoothing import smooth
from posable.tracking.takes import Report, Take, track

__all__ = [
    "BodyPlan", "Calibration", "Contacts", "Followed", "Report", "Take",
    "body_plan", "calibrate", "find_contacts", "follow", "keyframes", "smooth", "track",
]  # fmt: skip
