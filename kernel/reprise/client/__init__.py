"""Talks to a kernel from Python: attaches to the one that holds a session, or starts one.

    from reprise.client import connect

    with connect() as kernel:
        kernel.run("x = 6 * 7")
        print(kernel.command("ls -l").stdout)

docs/client.md teaches it by example.
"""

from reprise.client.background import Background
from reprise.client.comparison import FileChange
from reprise.client.entry import aconnect, connect
from reprise.client.failures import (
    ClientClosed,
    DependenciesMissing,
    KernelGone,
    NoAnswer,
    ProgramMissing,
    Refused,
)
from reprise.client.kernel import AsyncKernel
from reprise.client.reach import Patience
from reprise.client.results import (
    Artifact,
    CellResult,
    CommandResult,
    MountResult,
    Output,
    State,
    StepError,
    StepFailed,
    StepResult,
    StreamEnd,
    UploadResult,
)
from reprise.client.running import Running
from reprise.client.skill_results import Progress, SkillMounted, SkillResult
from reprise.client.sources import Bound
from reprise.client.sync import Kernel
from reprise.client.workspace import BackgroundStatus
from reprise.log.model import Actor

__all__ = [
    "Actor",
    "Artifact",
    "AsyncKernel",
    "Background",
    "BackgroundStatus",
    "Bound",
    "CellResult",
    "ClientClosed",
    "CommandResult",
    "DependenciesMissing",
    "FileChange",
    "Kernel",
    "KernelGone",
    "MountResult",
    "NoAnswer",
    "Output",
    "Patience",
    "ProgramMissing",
    "Progress",
    "Refused",
    "Running",
    "SkillMounted",
    "SkillResult",
    "State",
    "StepError",
    "StepFailed",
    "StepResult",
    "StreamEnd",
    "UploadResult",
    "aconnect",
    "connect",
]
