"""Marker sets as data: where the markers of the usual sets sit, by their labels or by plain words.

`MIDDLE` and `SIDED` have one entry per place on the body. `SETS` translates the labels of a marker set into places,
`CLUSTERS` numbered labels, of which only the bone is known; a label that none contains is read as words
("left_knee_lat", "R.Ankle", "WaistLFront"). To add a set, add its line to `SETS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from posable.model.body_plan import BodyPlan


class Placement(NamedTuple):
    """Where a marker sits: on the bones of `on` (the first that a figure has), near a point between two roles.

    Attributes:
        on: roles whose bone carries the marker, in order of preference.
        at: role next to which it sits.
        to: role towards which `share` counts.
        share: fraction of the way from `at` to `to`.
        out: [m] away from the middle of the body; to the left for markers without a side. Of a bone that itself points
            there, as the arms of a T pose do: upwards, the side on which the back of the hand is.
        up: [m] upwards.
        ahead: [m] forwards. All three as the figure stands at rest, for a stature of 1.80 m.
        center: role of the joint whose center is level with this marker; "" if there is none.
    """

    on: tuple[str, ...]
    at: str
    to: str = ""
    share: float = 0.0
    out: float = 0.0
    up: float = 0.0
    ahead: float = 0.0
    center: str = ""


# fmt: off
MIDDLE = {
    "C7": Placement(("chest",), "neck", ahead=-0.05),
    "T10": Placement(("chest", "pelvis"), "chest", "neck", 0.0, ahead=-0.10),
    "CLAV": Placement(("chest",), "neck", up=-0.06, ahead=0.08),
    "STRN": Placement(("chest",), "chest", "neck", 0.1, ahead=0.14),
    "RBAC": Placement(("chest",), "chest", "neck", 0.5, out=-0.09, ahead=-0.09),
    "LBAC": Placement(("chest",), "chest", "neck", 0.5, out=0.09, ahead=-0.09),
    "SACR": Placement(("pelvis",), "pelvis", ahead=-0.12),
    "ARIEL": Placement(("head", "neck"), "head", up=0.18),
    "HEADF": Placement(("head", "neck"), "head", up=0.09, ahead=0.12),
    "HEADB": Placement(("head", "neck"), "head", up=0.08, ahead=-0.10),
    "on head": Placement(("head", "neck"), "head", up=0.08),
    "on chest": Placement(("chest",), "chest", "neck", 0.5),
    "on pelvis": Placement(("pelvis",), "pelvis"),
}
SIDED = {
    "FHD": Placement(("head", "neck"), "head", out=0.07, up=0.10, ahead=0.09),
    "BHD": Placement(("head", "neck"), "head", out=0.07, up=0.08, ahead=-0.08),
    "HEADS": Placement(("head", "neck"), "head", out=0.08, up=0.09),
    "SHO": Placement(("clavicle", "chest"), "shoulder", up=0.05, center="shoulder"),
    "SHOB": Placement(("chest",), "shoulder", up=-0.04, ahead=-0.08),
    "BUST": Placement(("chest",), "shoulder", out=-0.08, up=-0.12, ahead=0.10),
    "UPA": Placement(("shoulder",), "shoulder", "elbow", 0.5),
    "ELB": Placement(("shoulder",), "shoulder", "elbow", 1.0, out=0.042, center="elbow"),
    "ELM": Placement(("shoulder",), "shoulder", "elbow", 1.0, out=-0.042, center="elbow"),
    "FRM": Placement(("elbow",), "elbow", "wrist", 0.5),
    "WRA": Placement(("wrist",), "elbow", "wrist", 1.0, out=0.018, ahead=0.03, center="wrist"),
    "WRB": Placement(("wrist",), "elbow", "wrist", 1.0, out=0.018, ahead=-0.03, center="wrist"),
    "FIN": Placement(("hand", "wrist"), "elbow", "wrist", 1.35),
    "IDX": Placement(("hand", "wrist"), "elbow", "wrist", 1.35, ahead=0.03),
    "PNK": Placement(("hand", "wrist"), "elbow", "wrist", 1.3, ahead=-0.03),
    "FWT": Placement(("pelvis",), "hip", out=0.03, up=0.09, ahead=0.09),
    "BWT": Placement(("pelvis",), "hip", out=-0.03, up=0.09, ahead=-0.12),
    "BUM": Placement(("pelvis",), "hip", ahead=-0.12),
    "ILC": Placement(("pelvis",), "hip", out=0.06, up=0.12),
    "HIP": Placement(("pelvis",), "hip", out=0.03),
    "GTR": Placement(("hip",), "hip", "knee", 0.0, out=0.09),
    "THI": Placement(("hip",), "hip", "knee", 0.5, out=0.07),
    "THF": Placement(("hip",), "hip", "knee", 0.6, ahead=0.08),
    "KNE": Placement(("hip",), "hip", "knee", 1.0, out=0.05, center="knee"),
    "KNM": Placement(("hip",), "hip", "knee", 1.0, out=-0.05, center="knee"),
    "FIB": Placement(("knee",), "knee", "ankle", 0.12, out=0.05),
    "TIT": Placement(("knee",), "knee", "ankle", 0.15, ahead=0.05),
    "SHN": Placement(("knee",), "knee", "ankle", 0.5, out=0.05),
    "SHF": Placement(("knee",), "knee", "ankle", 0.4, ahead=0.05),
    "ANK": Placement(("knee",), "knee", "ankle", 1.0, out=0.04, center="ankle"),
    "ANM": Placement(("knee",), "knee", "ankle", 1.0, out=-0.04, center="ankle"),
    "HEE": Placement(("ankle",), "ankle", up=-0.03, ahead=-0.06),
    "TOE": Placement(("ankle",), "ankle", up=-0.04, ahead=0.13),
    "TTP": Placement(("ankle",), "ankle", up=-0.05, ahead=0.19),
    "MT1": Placement(("ankle",), "ankle", out=-0.04, up=-0.05, ahead=0.12),
    "MT5": Placement(("ankle",), "ankle", out=0.05, up=-0.05, ahead=0.10),
    "on scapula": Placement(("clavicle", "chest"), "shoulder", out=-0.06, up=-0.06, ahead=-0.08),
    "on shoulder": Placement(("clavicle", "chest"), "shoulder", up=0.04),
    "on upper arm": Placement(("shoulder",), "shoulder", "elbow", 0.5, out=0.03),
    "on forearm": Placement(("elbow",), "elbow", "wrist", 0.5, out=0.02),
    "on hand": Placement(("hand", "wrist"), "elbow", "wrist", 1.25),
    "on thigh": Placement(("hip",), "hip", "knee", 0.5, out=0.05),
    "on shank": Placement(("knee",), "knee", "ankle", 0.45, out=0.04),
    "on foot": Placement(("ankle",), "ankle", up=-0.04, ahead=0.06),
}

# The places of a whole body as most sets mark it: those of CMU and HDM05.
BODY = (
    "C7", "T10", "CLAV", "STRN", "RBAC",
    *(side + place for side in "LR" for place in (
        "FHD", "BHD", "SHO", "UPA", "ELB", "FRM", "WRA", "WRB", "FIN", "FWT", "BWT", "THI", "KNE", "SHN", "ANK", "HEE",
        "TOE", "MT5",
    )),
)

# Labels of marker sets. "*" stands for L or R. Labels that are places already (LFHD, C7) need no line.
SETS: dict[str, dict[str, str]] = {
    "Plug-in Gait": {"*ASI": "*FWT", "*PSI": "*BWT", "*TIB": "*SHN", "RBAK": "RBAC", "LBAK": "LBAC", "*THIA": "*THF",
                     "*TIAB": "*SHN", "*UPB": "*UPA", "*MED": "*ANM"},
    "CGM2 and Oxford Foot Model": {"*THAP": "*THF", "*THAD": "*THF", "*TIAP": "*SHF", "*TIAD": "*SHF", "*SMH": "*TOE",
                                   "*FMH": "*MT1", "*VMH": "*MT5", "*HLX": "*TTP", "*D1M": "*MT1", "*P1M": "*on foot",
                                   "*D5M": "*MT5", "*P5M": "*on foot", "*PCA": "*HEE", "*CPG": "*HEE",
                                   "*STL": "*on foot", "*LCA": "*on foot", "*TUB": "*TIT", "*HFB": "*FIB",
                                   "*MMA": "*ANM"},
    "CMU and HDM05": {"*SHN": "*SHN", "*MT5": "*MT5", "*THM": "*IDX", "*LEG": "*SHN", "*FRA": "*FRM",
                      "*MTP": "*MT5", "*BWTB": "*BWT"},
    "Helen Hayes": {"V.SACRAL": "SACR", "V_SACRAL": "SACR", "TOP.HEAD": "ARIEL", "FRONT.HEAD": "HEADF",
                    "REAR.HEAD": "HEADB", "*.OFFSET": "RBAC", "*.ASIS": "*FWT", "*.PSIS": "*BWT", "*.THIGH": "*THI",
                    "*.KNEE": "*KNE", "*.SHANK": "*SHN", "*.ANKLE": "*ANK", "*.HEEL": "*HEE", "*.TOE": "*TOE",
                    "*.WRIST": "*WRA", "*.FOOT.LAT": "*MT5", "*.FOOT.MED": "*MT1", "*.SCAPULA": "*on scapula",
                    "L.BACK": "LBAC", "R.BACK": "RBAC"},
    "OptiTrack": {"WAIST*FRONT": "*FWT", "WAIST*BACK": "*BWT", "BACKTOP": "C7", "CHEST": "STRN", "BACKLEFT": "LBAC",
                  "BACKRIGHT": "RBAC", "HEADTOP": "ARIEL", "HEADFRONT": "HEADF", "HEADSIDE": "LHEADS",
                  "*SHOULDERTOP": "*SHO", "*SHOULDERBACK": "*SHOB", "*UARMHIGH": "*UPA", "*ELBOWOUT": "*ELB",
                  "*ELBOWIN": "*ELM", "*WRISTOUT": "*WRB", "*WRISTIN": "*WRA", "*HANDOUT": "*PNK", "*HANDIN": "*IDX",
                  "*THIGH": "*THI", "*KNEEOUT": "*KNE", "*KNEEIN": "*KNM", "*SHIN": "*SHN", "*ANKLEOUT": "*ANK",
                  "*ANKLEIN": "*ANM", "*TOEIN": "*MT1", "*TOEOUT": "*MT5", "*TOETIP": "*TTP", "*HEEL": "*HEE",
                  "*UARMLOW": "*UPA", "*FARM": "*FRM", "*FARMLOW": "*FRM", "*THIGHFRONT": "*THF", "*THIGHSIDE": "*THI",
                  "*SHINFRONT": "*SHF", "*SHINSIDE": "*SHN", "*HANDTHUMB": "*IDX"},
    "Qualisys": {"SPINETOP": "C7", "SPINETHORACIC2": "C7", "SPINETHORACIC12": "T10", "HEAD*": "*HEADS", "*ARM": "*UPA",
                 "*THIGHFRONTLOW": "*THF", "*SHINFRONTHIGH": "*SHF", "*HEELBACK": "*HEE", "*FOREFOOTOUT": "*MT5",
                 "*FOREFOOTIN": "*MT1", "*FOREFOOT2": "*TOE", "*FOREFOOT5": "*MT5", "WAIST*": "*ILC",
                 "WAISTBACK": "SACR", "BACK*": "*BAC", "*FOREFOOT21": "*TOE"},
    "Rizzoli": {"*GT": "*GTR", "*LE": "*KNE", "*ME": "*KNM", "*HF": "*FIB", "*TT": "*TIT", "*LM": "*ANK",
                "*MM": "*ANM", "*CA": "*HEE", "*FM": "*MT1", "*SM": "*TOE", "*VM": "*MT5", "MAI": "T10", "SJN": "CLAV",
                "SXS": "STRN", "*AC": "*SHO", "*IC": "*ILC"},
    # also OptiTrack's biomechanical sets (57 markers) and Qualisys' CAST
    "van Sint Jan (2007)": {"*IAS": "*FWT", "*IPS": "*BWT", "*FTC": "*GTR", "*FLE": "*KNE", "*FME": "*KNM",
                            "*FAX": "*FIB", "*TTC": "*TIT", "*FAL": "*ANK", "*TAM": "*ANM", "*FCC": "*HEE",
                            "*FM1": "*MT1", "*FM2": "*TOE", "*FM5": "*MT5", "*DP1": "*TTP", "*CAJ": "*SHO",
                            "*HGT": "*UPA", "*HLE": "*ELB", "*HME": "*ELM", "*RSP": "*WRA", "*USP": "*WRB",
                            "*HM2": "*IDX", "*HM5": "*PNK", "*HL5": "*PNK", "*AH": "*FHD", "*PH": "*BHD", "CV7": "C7",
                            "TV2": "C7", "TV7": "T10", "TV10": "T10", "LV5": "SACR", "*SIA": "*on scapula",
                            "*SRS": "*on scapula", "*SAE": "*on scapula", "*SAA": "*SHO"},
    "SMPL-X MoSh": {"*KNI": "*KNM", "*KNEI": "*KNM", "*KNEIN": "*KNM", "*ELBIN": "*ELM", "*IWR": "*WRA", "*OWR": "*WRB",
                    "*IDX3": "*IDX", "*PNKY": "*PNK", "*ANKIN": "*ANM", "*ANI": "*ANM", "*FTHI": "*THF",
                    "*BSHO": "*SHOB", "*TOET": "*TTP", "*RSTBEEF": "*MT5", "*BSH": "*SHOB",
                    "*THMB": "*IDX", "*BUST": "*BUST", "*BCEP": "*UPA", "*BUM": "*BUM", "*SCAP": "*on scapula",
                    "*FRMIN": "*FRM", "*FSHN": "*SHF", "*TIBI": "*SHN", "*HTHI": "*on thigh"},
    "ISB (Wu et al. 2002, 2005)": {"IJ": "CLAV", "PX": "STRN", "T8": "T10", "*EL": "*ELB", "*EM": "*ELM", "*RS": "*WRA",
                                   "*US": "*WRB"},
    "Davis et al. (1991)": {"VSAC": "SACR", "SACRUM": "SACR", "*SHA": "*SHN", "*WRI": "*WRA", "ROFF": "RBAC",
                            "LOFF": "LBAC"},
    "OpenSim (Rajagopal et al. 2016)": {"*ACR": "*SHO", "*LEL": "*ELB", "*MEL": "*ELM", "*FASUPERIOR": "*FRM",
                                        "*FARADIUS": "*WRA", "*FAULNA": "*WRB", "*LFC": "*KNE", "*MFC": "*KNM",
                                        "*LMAL": "*ANK", "*MMAL": "*ANM", "*CAL": "*HEE", "*MELBOW": "*ELM",
                                        "*MKNEE": "*KNM", "*MANKLE": "*ANM"},
    "Visual3D": {"*LK": "*KNE", "*MK": "*KNM", "*LKN": "*KNE", "*MKN": "*KNM", "*LKNE": "*KNE", "*MKNE": "*KNM",
                 "*LKNEE": "*KNE", "*LA": "*ANK", "*MA": "*ANM", "*LANK": "*ANK", "*MANK": "*ANM", "*1MET": "*MT1",
                 "*5MET": "*MT5", "*1MT": "*MT1", "*5MT": "*MT5", "*MT2": "*TOE", "*MTH1": "*MT1", "*MTH5": "*MT5",
                 "*MET1": "*MT1", "*MET5": "*MT5", "*CALC": "*HEE", "*GTRO": "*GTR", "*TROC": "*GTR", "*ILCR": "*ILC",
                 "*ILIAC": "*ILC", "*DELT": "*UPA", "*LELB": "*ELB", "*MELB": "*ELM", "*ELBL": "*ELB", "*ELBM": "*ELM",
                 "*WRIR": "*WRA", "*WRIU": "*WRB"},
    "PhaseSpace": {},  # numbered: bones come from how the markers move
}

# Markers of a plate or cluster on one bone, numbered from 1: "RTH1", "L.SH3", "PV02", "Skeleton_LUArm2".
CLUSTERS = {
    "HEAD": "on head", "HD": "on head",
    "CHEST": "on chest", "TRUNK": "on chest", "TORSO": "on chest", "THORAX": "on chest", "THX": "on chest",
    "TRNK": "on chest", "*TA": "on chest",
    "PELVIS": "on pelvis", "PELV": "on pelvis", "PEL": "on pelvis", "PV": "on pelvis", "*PV": "on pelvis",
    "HIP": "on pelvis", "SACRUM": "on pelvis", "SAC": "on pelvis",
    "*SHOULDER": "*on shoulder",
    "*UA": "*on upper arm", "*AR": "*on upper arm", "*ARM": "*on upper arm", "*UARM": "*on upper arm",
    "*UPPERARM": "*on upper arm",
    "*FA": "*on forearm", "*FARM": "*on forearm", "*FOREARM": "*on forearm",
    "*HAND": "*on hand",
    "*TH": "*on thigh", "*THI": "*on thigh", "*THIGH": "*on thigh", "*FEMUR": "*on thigh",
    "*SH": "*on shank", "*SHA": "*on shank", "*SK": "*on shank", "*SHANK": "*on shank", "*SHIN": "*on shank",
    "*TB": "*on shank", "*TIB": "*on shank", "*TIBIA": "*on shank",
    "*FT": "*on foot", "*FOOT": "*on foot",
}

# Plain words, for labels such as "l thigh", "left_knee_lat" or "R.Foot.Toe": word -> meaning.
WORDS = {
    "hip": "HIP", "hipjoint": "HIP", "greattoe": "TTP", "epicondylelat": "ELB", "epicondylemed": "ELM", "eye": "FHD",
    "ear": "HEADS", "condylelat": "KNE", "condylemed": "KNM", "femoralcondylelat": "KNE", "femoralcondylemed": "KNM",
    "femoralepicondylelat": "KNE", "femoralepicondylemed": "KNM", "humeralepicondylelat": "ELB",
    "humeralepicondylemed": "ELM", "scapula": "on scapula",
    "asis": "FWT", "psis": "BWT", "waistfront": "FWT", "waistback": "BWT", "pelvisfront": "FWT", "pelvisback": "BWT",
    "hipfront": "FWT", "hipback": "BWT", "iliaccrest": "ILC", "trochanter": "GTR", "greatertrochanter": "GTR",
    "thighupper": "on thigh", "shankupper": "on shank",
    "thigh": "THI", "upleg": "THI", "upperleg": "THI", "femur": "THI", "knee": "KNE", "kneelat": "KNE",
    "kneemed": "KNM",
    "kneefront": "KNE", "shin": "SHN", "shank": "SHN", "tibia": "SHN", "lowerleg": "SHN", "calf": "SHN",
    "ankle": "ANK", "anklelat": "ANK", "anklemed": "ANM", "malleolus": "ANK", "malleoluslat": "ANK",
    "malleolusmed": "ANM", "heel": "HEE", "calcaneus": "HEE", "toe": "TOE", "toes": "TOE", "bigtoe": "TTP",
    "foot": "TOE", "foottoe": "TOE", "footheel": "HEE", "smalltoe": "MT5", "littletoe": "MT5",
    "metatarsallat": "MT5", "metatarsalmed": "MT1", "footlat": "MT5", "footmed": "MT1",
    "metatarsal": "TOE", "met": "TOE", "mall": "ANK", "toetip": "TTP",
    "shoulder": "SHO", "should": "SHO", "acromion": "SHO", "acromium": "SHO", "bicep": "UPA", "biceps": "UPA",
    "upperarm": "UPA", "uparm": "UPA", "arm": "UPA", "humerus": "UPA",
    "elbow": "ELB", "elbowlat": "ELB", "elbowmed": "ELM", "epilat": "ELB", "epimed": "ELM", "humerusepicondyle": "ELB",
    "wristrad": "WRA", "wristradius": "WRA", "wristuln": "WRB", "wristulna": "WRB", "radiusstyloid": "WRA",
    "ulnastyloid": "WRB", "forearm": "FRM", "lowerarm": "FRM",
    "wrist": "WRA", "wristlat": "WRB", "wristmed": "WRA", "wristthumb": "WRA", "wristpinky": "WRB", "radius": "WRA",
    "ulna": "WRB", "hand": "FIN", "finger": "FIN", "fingers": "FIN", "thumb": "IDX", "index": "IDX", "pinky": "PNK",
    "headfront": "FHD", "headback": "BHD", "head": "HEADS", "temple": "HEADS",
}
MIDDLE_WORDS = {
    "nose": "HEADF", "hip": "on pelvis", "hips": "on pelvis", "midhip": "on pelvis",
    "head": "HEADF", "headtop": "ARIEL", "tophead": "ARIEL", "headfront": "HEADF", "forehead": "HEADF",
    "fronthead": "HEADF", "headback": "HEADB", "rearhead": "HEADB", "neck": "C7", "chest": "STRN", "sternum": "STRN",
    "xiphoid": "STRN", "clavicle": "CLAV", "jugularnotch": "CLAV", "back": "T10", "spine": "T10", "sacrum": "SACR",
    "sacral": "SACR", "vsacral": "SACR", "pelvis": "SACR", "root": "SACR",
}
_QUALIFIERS = {"lateral": "lat", "outer": "lat", "outside": "lat", "out": "lat", "ext": "lat", "medial": "med",
               "inner": "med", "inside": "med", "in": "med", "int": "med", "anterior": "front", "posterior": "back",
               "ant": "front", "post": "back", "rear": "back",
               "5th": "lat", "fifth": "lat", "1st": "med", "first": "med"}
# fmt: on
_WHERE = ("lat", "med", "front", "back", "top")
_SIDES = {"l": "L", "left": "L", "lt": "L", "r": "R", "right": "R", "rt": "R"}
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])")

_SEPARATORS = re.compile(r"[^A-Z0-9]+")
_NUMBERED = re.compile(r"([A-Z]+?)0?[1-9]")
_PREFIX = re.compile(r"^.*[^A-Za-z0-9]")  # of "Subject_LASI" or "Actor01|LASI"

# Points that Vicon's models compute, written among the markers: axes of segments, angles, forces, centers.
_VIRTUAL = re.compile(
    r"^((PEL|[LR](FE|TI|TO|FO|CL|HU|RA|HN|HO)|HED|TRX|SPI)[OALPXYZ0-9]"
    r"|.*(Angles?V?|Moment|Power|Forces?|GRF|GRM|NormalisedGRF)|Centre?OfMass.*|Center?OfMass.*"
    r"|[LR][_.]?[HKAESW]JC|.*Hip_?Cent(er|re).*)$"
)


@lru_cache(maxsize=4096)
def base_name(marker: str) -> str:
    """Return a marker's name without its subject: "Daniel:LFHD" and "Daniel_LFHD" are LFHD."""
    name = marker.rsplit(":", 1)[-1].strip()
    end = _PREFIX.sub("", name)
    if end == name or _known_place(name) or _in_words(name):
        return name
    return end if _known_place(end) or _VIRTUAL.match(end) else name


def subject_of(marker: str) -> str:
    """Return the subject that a marker's name begins with: "Daniel" of "Daniel:LFHD" and "Daniel_LFHD"; "" if none."""
    return marker.strip().removesuffix(base_name(marker)).rstrip(":_|.- ")


def is_virtual(marker: str) -> bool:
    """Return whether a label is that of a point which a biomechanical model computed, not of a marker."""
    return _VIRTUAL.match(base_name(marker)) is not None


def listed(markers: Sequence[str]) -> str:
    """Return the labels of markers, and how many others have no label or are results of a model."""
    stars = sum(name.startswith("*") for name in markers)
    named = [name for name in markers if not name.startswith("*") and not is_virtual(name)]
    counts = ((stars, "without a label"), (len(markers) - stars - len(named), "computed by a model"))
    return ", ".join([*named, *(f"{count} {what}" for count, what in counts if count)])


@lru_cache(maxsize=4096)
def placement_of(marker: str) -> tuple[Placement, str, str] | None:
    """Return (spot, side, place) of a label, or None if it is not recognised.

    Args:
        marker: the label, with or without the name of a subject.

    Returns:
        The spot, its side "L", "R" or "" for the middle, and the place's name with its side, such as "LKNE".
    """
    name = base_name(marker)
    if is_virtual(name):
        return None
    place = _known_place(name) or _in_words(name)
    if place is None:
        return None
    if place in MIDDLE:
        return MIDDLE[place], "", place
    return SIDED[place[1:]], place[0], place


def place_name(marker: str) -> str:
    """Return the name of the place that a label means, such as "LFWT" for "Subject_LASI"; "" if unknown."""
    found = placement_of(marker)
    return found[2] if found is not None else ""


def is_cluster(marker: str) -> bool:
    """Return whether a label means a marker somewhere on a bone, such as one of a plate, not one at a landmark."""
    found = placement_of(marker)
    return found is not None and found[2].removeprefix(found[1]).startswith("on ")


def mirrored_name(marker: str) -> str:
    """Return the label of the other side: "LKNE" for "RKNE", "left_knee" for "right_knee"; itself without a side."""
    name = base_name(marker)
    found = placement_of(name)
    if found is None or not found[1]:
        return name
    pairs = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"), ("L", "R"), ("l", "r"))
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            for match in re.finditer(one, name):
                renamed = name[: match.start()] + other + name[match.end() :]
                twin = placement_of(renamed)
                if twin is not None and twin[1] != found[1] and twin[2][1:] == found[2][1:]:
                    return renamed
    return name


def _known_place(name: str) -> str | None:
    """Return the place of a label that is its name already, or that some marker set means by it."""
    upper = name.upper()
    plain = _SEPARATORS.sub("", upper)
    for label in (upper, plain) if plain != upper else (upper,):
        if label in MIDDLE or (label[:1] in ("L", "R") and label[1:] in SIDED):
            return label
        if place := _labels().get(label):
            return place
    numbered = _NUMBERED.fullmatch(plain)
    return _clusters().get(numbered[1]) if numbered else None


@lru_cache(maxsize=1)
def _labels() -> dict[str, str]:
    """Return the place of every label of `SETS`; where sets disagree, that of the first."""
    out: dict[str, str] = {}
    for labels in SETS.values():
        out = _of_both_sides(labels) | out
    return out


@lru_cache(maxsize=1)
def _clusters() -> dict[str, str]:
    """Return the place of every numbered label of `CLUSTERS`, by what precedes the number."""
    return _of_both_sides(CLUSTERS)


def _of_both_sides(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels, and the places they mean, with L and R for "*"."""
    return {label.replace("*", side): place.replace("*", side) for label, place in labels.items() for side in "RL"}


def _in_words(name: str) -> str | None:
    """Return the place that plain words mean: a side, a part of the body, and where on it."""
    side, words = "", []
    for word in (part.lower() for part in _SPLIT.split(name) if part and not part.isdigit()):
        if word in _SIDES and not side:
            side = _SIDES[word]
        elif word not in ("marker", "mkr", "center", "centre", "joint"):
            words.append(_QUALIFIERS.get(word, word))
    if not side and words and words[0][:1] in "lr" and words[0][1:] in WORDS:
        side, words[0] = words[0][0].upper(), words[0][1:]
    body = [word for word in words if word not in _WHERE]
    where = [word for word in words if word in _WHERE]
    key = "".join([*body, *where])
    if not side:
        return MIDDLE_WORDS.get(key) or MIDDLE_WORDS.get("".join(body))
    place = WORDS.get(key) or WORDS.get("".join(body))
    return side + place if place else None


# --- Where a named marker sits on a figure ---

STATURE = 1.80  # [m] of the person whose offsets the table gives
ALONG = 0.5  # sine of the angle to a bone below which a direction is along it


# Places that keypoints of cameras (Pose2Sim, OpenPose, COCO) name, which are in the middle of joints there, and places
# that only markers have.
KEYPOINTS = ("HIP", "KNE", "ANK", "SHO", "ELB", "WRA")
ON_SKIN = ("FWT", "BWT", "GTR", "THI", "KNM", "SHN", "ANM")


def are_keypoints(markers: Sequence[str]) -> bool:
    """Return whether labels are those of keypoints: hips and knees, but nothing that only markers on the skin have."""
    places = {place_name(name) for name in markers}
    hips = all(side + place in places for side in "LR" for place in ("HIP", "KNE"))
    return hips and not any(side + place in places for side in "LR" for place in ON_SKIN)


def guess(plan: BodyPlan, marker: str, *, keypoints: bool = False) -> tuple[str, np.ndarray] | None:
    """Return (joint, place (3,) [m] in the world, at rest) of a marker by its name, or None if it is not recognised.

    keypoints: whether the names are those of joints, as `are_keypoints` says.
    """
    known = placement_of(marker)
    if known is None:
        return None
    spot, side, name = known
    if keypoints and name[1:] in KEYPOINTS:
        spot = spot._replace(out=0.0, up=0.0, ahead=0.0)
    role = plan.first(*(_sided(role, side) for role in spot.on))
    at = plan.first(_sided(spot.at, side), _sided(spot.on[0], side), *(_sided(on, side) for on in spot.on))
    if role is None or at is None:
        return None
    place = plan.place(at)
    to = _sided(spot.to, side)
    if spot.to and to in plan:
        place = place + spot.share * (plan.place(to) - place)
    size = plan.stature / STATURE
    outward = -plan.left if side == "R" else plan.left
    if spot.to and to in plan:
        bone = plan.place(to) - plan.place(at)
        bone /= max(float(np.linalg.norm(bone)), 1e-9)
        across = outward - (outward @ bone) * bone
        outward = across / np.linalg.norm(across) if np.linalg.norm(across) > ALONG else plan.up
    return plan[role], place + size * (spot.out * outward + spot.up * plan.up + spot.ahead * plan.forward)


def _sided(role: str, side: str) -> str:
    return f"{role}.{side}" if side and role not in ("pelvis", "chest", "neck", "head") else role
