"""What became of all files: summary.json for machines, summary.md for people."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posable.cli.many.jobs import FAILED, NOT_DONE, NOT_REACHED, OK, Job, Outcome
from posable.cli.many.outcomes import write_at_once


@dataclass(frozen=True)
class Summary:
    """Every job with its outcome, and how they were done: `outcomes` lacks those that were not done."""

    verb: str
    measure: str  # what the error is, with its unit
    folder: Path
    jobs: Sequence[Job]
    outcomes: Mapping[Job, Outcome]
    skipped: frozenset[Job]  # finished by an earlier call
    where: str  # on what they were done
    seconds: float  # from the first to the last, on the clock
    stopped: bool = False

    @property
    def counts(self) -> Counter[str]:
        """How many files have which status."""
        return Counter(row["status"] for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0: every file is reached; 2: one has failed; 1: one is not reached, or not done."""
        counts = self.counts
        return 2 if counts[FAILED] else 1 if counts[NOT_REACHED] or counts[NOT_DONE] else 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each file, in the order in which they were given."""
        return [self._row(job) for job in self.jobs]

    def _row(self, job: Job) -> dict[str, Any]:
        outcome = self.outcomes.get(job, Outcome(job.file, NOT_DONE, "stopped before it was done"))
        written = outcome.status in (OK, NOT_REACHED)
        return {
            "file": job.file, "status": outcome.status, "why": outcome.why, "frames": outcome.frames,
            "error": outcome.error, "seconds": round(outcome.seconds, 3), "skipped": job in self.skipped,
            "result": job.result.relative_to(self.folder).as_posix() if written else None,
            "report": job.report.relative_to(self.folder).as_posix() if written else None,
            "notes": list(outcome.notes),
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data; frames and rate are of what this call has done."""
        new = [outcome for job, outcome in self.outcomes.items() if job not in self.skipped]
        frames = sum(outcome.frames for outcome in new)
        return {
            "verb": self.verb, "measure": self.measure, "where": self.where, "files": len(self.jobs),
            **{name.replace(" ", "_"): self.counts[name] for name in (OK, NOT_REACHED, FAILED, NOT_DONE)},
            "skipped": len(self.skipped), "stopped": self.stopped, "frames": frames,
            "seconds": round(self.seconds, 3), "frames_per_second": round(frames / max(self.seconds, 1e-9), 1),
            "rows": self.rows,
        }  # fmt: skip

    def __str__(self) -> str:
        data = self.as_dict()
        counts = ", ".join(
            f"{self.counts[name]} {name}" for name in (OK, NOT_REACHED, FAILED, NOT_DONE) if self.counts[name]
        )
        lines = [f"{data['files']} file{'' if data['files'] == 1 else 's'}: {counts}"]
        if self.skipped:
            lines.append(f"{data['skipped']} of them were finished before and skipped; --again does them anew")
        lines.append(
            f"{data['frames']} frames in {self.seconds:.1f} s ({data['frames_per_second']:.0f} a second), {self.where}"
        )
        if self.stopped:
            lines.append("stopped early; the same call goes on from here")
        return "\n".join(lines)

    def write(self) -> None:
        """Write summary.json and summary.md into the folder."""
        text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False)
        write_at_once(self.folder / "summary.json", text + "\n")
        write_at_once(self.folder / "summary.md", self._markdown())

    def _markdown(self) -> str:
        head = f"| file | frames | {self.measure} | seconds | outcome | why |"
        lines = [f"# posable {self.verb}", "", *(f"{line}.  " for line in str(self).splitlines()), ""]
        lines += [head, "| --- | ---: | ---: | ---: | --- | --- |"]
        for row in self.rows:
            error = "" if row["error"] is None else f"{row['error']:.3g}"
            name = _cell(row["file"])
            file = f"[{name}](<{row['report']}>)" if row["report"] else name
            done = row["status"] + (" (before)" if row["skipped"] else "")
            cells = (file, row["frames"] or "", error, f"{row['seconds']:.2f}", done, _cell(row["why"]))
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
