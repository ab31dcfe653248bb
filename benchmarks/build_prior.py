"""Learn the prior of poses from recordings: `python -m benchmarks.build_prior FOLDER`, a folder of CMU's BVH files.

CMU's motion capture (mocap.cs.cmu.edu, free for all uses) as BVH by B. Hahne (cgspeed), named SUBJECT_TAKE.bvh. Every
fifth subject is left out, for checking only. The model is written into the package: src/posable/goals/.
"""

import argparse
from pathlib import Path

import numpy as np

import posable as ps
from posable.goals.natural import LIMBS, MODEL, features_of, limbs_of
from posable.model.body_plan import person_plan

COMPONENTS = {"trunk": 1, "arm": 8, "leg": 4}  # more gain little on other subjects, and let a drag jump
RANK = 5
NOISE = 0.05**2  # least variance off the factor: about 3 degrees
ROUNDS = 40  # of expectation and maximisation
TARGET = Path(__file__).parents[1] / "src" / "posable" / "goals" / MODEL


def subject_of(path: Path) -> str:
    """Return the subject of a file named SUBJECT_TAKE.bvh."""
    return path.stem.partition("_")[0]


def split(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return the recordings to learn from, and those of every fifth subject to check on."""
    subjects = sorted({subject_of(path) for path in paths}, key=int)
    kept = set(subjects[::5])
    return [p for p in paths if subject_of(p) not in kept], [p for p in paths if subject_of(p) in kept]


def examples(paths: list[Path]) -> dict[str, np.ndarray]:
    """Return the features (t, m) of each kind of limb in all recordings; right limbs are mirror images of left ones."""
    out: dict[str, list[np.ndarray]] = {name: [] for name in LIMBS}
    for path in paths:
        motion = ps.load(path).motion
        assert motion is not None
        plan = person_plan(motion.skeleton)
        for limb in limbs_of(plan):
            if len(limb.has) == len(LIMBS[limb.model]):
                out[limb.model].append(features_of(motion.skeleton, limb, motion.poses))
    return {name: np.concatenate(rows) for name, rows in out.items()}


def densities(rows: np.ndarray, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Return the logarithm (t, c) of each component's weighted density, but for a constant."""
    out = np.empty((len(rows), len(weights)))
    for c, (weight, mean, covariance) in enumerate(zip(weights, means, covariances, strict=True)):
        root = np.linalg.cholesky(covariance)
        scaled = np.linalg.solve(root, (rows - mean).T)
        out[:, c] = np.log(weight) - np.log(np.diag(root)).sum() - 0.5 * (scaled**2).sum(axis=0)
    return out


def low_rank(covariance: np.ndarray, rank: int) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the nearest covariance U U' + s I, its s and its U (m, rank)."""
    values, vectors = np.linalg.eigh(covariance)
    noise = max(float(values[:-rank].mean()), NOISE)
    factor = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:] - noise, 0.0))
    return factor @ factor.T + noise * np.eye(len(covariance)), noise, factor


def mixture(rows: np.ndarray, count: int, rank: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Fit a mixture of low-rank Gaussians to rows (t, m) by expectation and maximisation."""
    means = rows[rng.choice(len(rows), 1)]
    for _ in range(count - 1):  # far from those that are there, as k-means++ does
        gaps = np.min(((rows[:, None] - means[None]) ** 2).sum(axis=2), axis=1)
        means = np.concatenate([means, rows[[rng.choice(len(rows), p=gaps / gaps.sum())]]])
    covariances = np.repeat(np.cov(rows.T)[None] / count + NOISE * np.eye(rows.shape[1]), count, axis=0)
    weights = np.full(count, 1.0 / count)
    noise, factors = np.empty(count), np.empty((count, rows.shape[1], rank))
    for _ in range(ROUNDS):
        logs = densities(rows, weights, means, covariances)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        total = shares.sum(axis=0) + 1e-9
        weights = np.maximum(total / total.sum(), 1e-4)
        for c in range(count):
            means[c] = shares[:, c] @ rows / total[c]
            gaps = rows - means[c]
            spread = (gaps * shares[:, [c]]).T @ gaps / total[c]
            covariances[c], noise[c], factors[c] = low_rank(spread + 0.25 * NOISE * np.eye(rows.shape[1]), rank)
    return {"weight": weights / weights.sum(), "mean": means, "noise": noise, "factor": factors}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="of SUBJECT_TAKE.bvh files")
    parser.add_argument("--most", type=int, default=12000, help="examples of a limb")
    args = parser.parse_args()
    learn, check = split(sorted(args.folder.glob("*.bvh")))
    rng = np.random.default_rng(0)
    held = examples(check)
    out = {}
    for name, rows in examples(learn).items():
        some = rows[rng.permutation(len(rows))[: args.most]]
        if name == "trunk":  # it has no other side: with its mirror images it leans neither way
            some = np.concatenate([some, some * np.tile([-1.0, 1.0, 1.0], some.shape[1] // 3)])
        fitted = mixture(some, COMPONENTS[name], RANK, rng)
        out |= {f"{name}.{part}": values.astype(np.float32) for part, values in fitted.items()}
        spread = [u @ u.T + s * np.eye(len(u)) for u, s in zip(fitted["factor"], fitted["noise"], strict=True)]
        for part, these in (("learnt from", some), ("held out", held[name])):
            logs = densities(these, fitted["weight"], fitted["mean"], np.array(spread))
            mean = np.logaddexp.reduce(logs, axis=1).mean()
            print(f"{name}, {part}: {len(these)} examples, mean log density {mean:.2f}")
    np.savez_compressed(TARGET, **out)
    print(f"wrote {TARGET.name}, {TARGET.stat().st_size / 1e3:.0f} kB, from {len(learn)} recordings")


if __name__ == "__main__":
    main()
