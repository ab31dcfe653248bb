"""The figure as people describe it: joints, skeletons, kinematics, motion."""
