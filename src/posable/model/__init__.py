"""The model of a figure: joints, skeletons, kinematics, motion."""
