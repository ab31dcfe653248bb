"""Names of the joints in the usual sets of 3D keypoints, in their order, and the trees that they make. Data only.

`SETS` maps a set's name to its joints; `PARENTS` gives each joint its parent. A joint whose parent is not in the set
hangs on the nearest ancestor that is.
"""

from __future__ import annotations


def _sided(*names: str) -> tuple[str, ...]:
    return tuple(f"{side}_{name}" for name in names for side in ("left", "right"))


SMPL_24 = (
    "pelvis", "left_hip", "right_hip", "spine1", "left_knee", "right_knee", "spine2", "left_ankle", "right_ankle",
    "spine3", "left_foot", "right_foot", "neck", "left_collar", "right_collar", "head", "left_shoulder",
    "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hand", "right_hand",
)  # fmt: skip
COCO_17 = ("nose", *_sided("eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"))
HALPE_26 = (
    *COCO_17, "head", "neck", "pelvis", *_sided("big_toe", "small_toe", "heel"),
)  # fmt: skip
OPENPOSE_25 = (
    "nose", "neck", "right_shoulder", "right_elbow", "right_wrist", "left_shoulder", "left_elbow", "left_wrist",
    "pelvis", "right_hip", "right_knee", "right_ankle", "left_hip", "left_knee", "left_ankle", "right_eye", "left_eye",
    "right_ear", "left_ear", "left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe",
    "right_heel",
)  # fmt: skip
HUMAN36M_17 = (
    "pelvis", "right_hip", "right_knee", "right_ankle", "left_hip", "left_knee", "left_ankle", "spine", "neck", "nose",
    "head", "left_shoulder", "left_elbow", "left_wrist", "right_shoulder", "right_elbow", "right_wrist",
)  # fmt: skip
MEDIAPIPE_33 = (
    "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer",
    "left_ear", "right_ear", "mouth_left", "mouth_right", *_sided("shoulder", "elbow", "wrist", "pinky", "index",
    "thumb", "hip", "knee", "ankle", "heel", "foot_index"),
)  # fmt: skip
COCO_133 = (
    *COCO_17, "left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe", "right_heel",
    *(f"face_{k}" for k in range(68)), *(f"left_hand_{k}" for k in range(21)), *(f"right_hand_{k}" for k in range(21)),
)  # fmt: skip

SETS: dict[str, tuple[str, ...]] = {
    "smpl24": SMPL_24,
    "coco17": COCO_17,
    "coco133": COCO_133,
    "halpe26": HALPE_26,
    "openpose25": OPENPOSE_25,
    "human36m17": HUMAN36M_17,
    "mediapipe33": MEDIAPIPE_33,
}

_TRUNK: dict[str, str | None] = {
    "pelvis": None, "spine": "pelvis", "spine1": "pelvis", "spine2": "spine1", "spine3": "spine2", "neck": "spine3",
    "head": "neck", "nose": "head", "mouth_left": "head", "mouth_right": "head",
}  # fmt: skip
_SIDE = {
    "hip": "pelvis", "knee": "hip", "ankle": "knee", "foot": "ankle", "heel": "ankle", "big_toe": "ankle",
    "small_toe": "ankle", "foot_index": "ankle", "collar": "spine3", "shoulder": "collar", "elbow": "shoulder",
    "wrist": "elbow", "hand": "wrist", "pinky": "wrist", "index": "wrist", "thumb": "wrist", "eye": "head",
    "ear": "head", "eye_inner": "head", "eye_outer": "head",
}  # fmt: skip
_MIDDLE = ("pelvis", "spine3", "head")
PARENTS: dict[str, str | None] = _TRUNK | {
    f"{side}_{name}": parent if parent in _MIDDLE else f"{side}_{parent}"
    for name, parent in _SIDE.items()
    for side in ("left", "right")
}

# Places that a set lacks and a tree needs: the middle of two others.
MIDDLES = {"pelvis": ("left_hip", "right_hip"), "neck": ("left_shoulder", "right_shoulder")}
FACE = ("face_", "left_hand_", "right_hand_")  # of COCO 133: carried by no bone of ours
