"""Every subject, in the order in which they run. To add one: a module with `evidence(page)`, and its line here."""

from benchmarks.subject import Subject

SUBJECTS = (
    Subject("kinematics", "Kinematics and derivatives", "benchmarks.kinematics"),
    Subject("robots", "Robots and a human: random reachable poses", "benchmarks.robots"),
    Subject("front_door", "Session and solve: cost of a call", "benchmarks.front_door"),
    Subject("goals", "Mixed goals on every figure", "benchmarks.goals"),
    Subject("natural", "Natural poses: least change and a prior of poses", "benchmarks.natural", ("data",)),
    Subject(
        "engell_norregard_2011",
        "Engell-Nørregård & Erleben 2011: a projected line search at interactive rates",
        "benchmarks.engell_norregard_2011",
        ("data",),
    ),
    Subject("rabbani_2017", "Rabbani 2017: every linear solver near singularities", "benchmarks.rabbani_2017"),
    Subject("parent_linkages", "Parent, Kinematic Linkages: three links", "benchmarks.parent_linkages"),
    Subject("tolani_2000", "Tolani et al. 2000: the limb in closed form", "benchmarks.tolani_2000"),
    Subject(
        "erleben_andrews_2018", "Erleben & Andrews 2018: exact Hessians", "benchmarks.erleben_andrews_2018", ("data",)
    ),
    Subject("scaling_laws", "Scaling laws: cost of a solve by size", "benchmarks.scaling_laws"),
    Subject("takes", "Takes: tracking, hidden markers, retargeting", "benchmarks.takes", ("data",)),
    Subject("retargeting", "Human motion on a humanoid robot", "benchmarks.retargeting", ("data",)),
    Subject("corruption", "Corrupted takes: spikes, swaps, dropouts, wrong units", "benchmarks.corruption", ("data",)),
    Subject("gaps", "Gaps: joints beside straight lines", "benchmarks.gaps", ("data",)),
    Subject("cameras", "Cameras: motion from 2D keypoints", "benchmarks.cameras", ("data",)),
    Subject("joint_centres", "Joint centres beside a functional method", "benchmarks.joint_centres", ("data",)),
    Subject("many", "Many files: throughput, and an estimate for a large data set", "benchmarks.many", ("data",)),
    Subject(
        "collision", "Collision: poses that do not touch themselves", "benchmarks.collision", ("data", "mujoco", "coal")
    ),
    Subject("solutions", "All solutions of six-axis arms", "benchmarks.solutions", ("eaik",)),
    Subject("gpu", "Batches on a GPU", "benchmarks.gpu", ("gpu",)),
    Subject("interaction", "Interaction: the studio's latency", "benchmarks.interaction", ("viser",)),
    Subject("afternoon", "Long session in the studio", "benchmarks.afternoon", ("viser", "playwright")),
    Subject("trust", "Predictions, remedies and derivatives", "benchmarks.trust"),
    Subject("hostile", "Hostile problems", "benchmarks.hostile"),
    Subject("control", "Control: limits, singularities and hostile targets", "benchmarks.control", ("data",)),
    Subject("lines", "Control: straight lines on six arms", "benchmarks.lines"),
    Subject("formats", "Files: speed and agreement of the readers", "benchmarks.formats", ("data",), "readers"),
    Subject("fuzz_formats", "Files: readers under mutated input", "benchmarks.fuzz_formats"),
    Subject("fuzzing", "Fuzzing: files, problems, messages and killed processes", "benchmarks.fuzz", ("viser",)),
    Subject("blender_formats", "Files: compared with Blender", "benchmarks.blender_formats", ("data",)),
    Subject("peers", "Comparison with other libraries", "benchmarks.peers"),
)
BY_NAME = {subject.name: subject for subject in SUBJECTS}
