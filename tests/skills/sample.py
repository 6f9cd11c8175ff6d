"""Small skills, made for one test each."""

from collections.abc import Mapping
from pathlib import Path

from reprise.skills.contract import EXECUTABLE, PLAIN, SkillTree
from reprise.skills.folder import tree_of_files

FRONT = "name: sample\ndescription: Counts rows. Use it when a table is new.\n"
BODY = "# Count\n\nRun the script.\n"

#: What a file is made of: its text or bytes, or a mode and those.
Content = str | bytes | tuple[int, str | bytes]


def skill_md(front: str = FRONT, body: str = BODY) -> str:
    return f"---\n{front}---\n\n{body}"


def sample(
    front: str = FRONT, body: str = BODY, files: Mapping[str, Content] | None = None
) -> SkillTree:
    """A skill with that SKILL.md and those other files."""
    return tree({"SKILL.md": skill_md(front, body), **(files or {})})


def tree(files: Mapping[str, Content]) -> SkillTree:
    made = []
    for path, content in files.items():
        mode, text = content if isinstance(content, tuple) else (PLAIN, content)
        made.append((path, mode, text if isinstance(text, bytes) else text.encode()))
    return tree_of_files(made)


def script(text: str) -> Content:
    return EXECUTABLE, text


def on_disk(folder: Path, files: Mapping[str, Content]) -> Path:
    """The folder with these files in it, as an author would have made it."""
    for path, content in files.items():
        mode, text = content if isinstance(content, tuple) else (PLAIN, content)
        at = folder / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(text if isinstance(text, bytes) else text.encode())
        at.chmod(mode)
    return folder
