"""Motion: from markers and paths to clean animation."""

from posable.tracking.bodyplan import BodyPlan, body_plan
from posable.tracking.calibration import calibrate
from posable.tracking.contacts import Contacts, find_contacts
from posable.tracking.fitting import Calibration
from posable.tracking.following import Followed, follow
from posable.tracking.keyframes import keyframes
from posable.tracking.results import Report, Take
from posable.tracking.retargeting import Retargeted, infer_mapping, retarget
from posable.tracking.smoothing import Smoothed, smooth
from posable.tracking.takes import track

__all__ = [
    "BodyPlan", "Calibration", "Contacts", "Followed", "Report", "Retargeted", "Smoothed", "Take",
    "body_plan", "calibrate", "find_contacts", "follow", "infer_mapping", "keyframes", "retarget", "smooth", "track",
]  # fmt: skip
