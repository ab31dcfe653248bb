"""Every subject, in the order in which they run. To add one: a module with `evidence(page)`, and its line here."""

from benchmarks.subject import Subject

SUBJECTS = (
    Subject("kinematics", "Kinematics and derivatives", "benchmarks.kinematics"),
    Subject("robots", "Robots and a human to random reachable poses", "benchmarks.robots"),
    Subject("peers", "Posable beside its peers", "benchmarks.peers"),
)
BY_NAME = {subject.name: subject for subject in SUBJECTS}
