"""What is known of the skills that a session has used: who vouches for them, what was revoked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from reprise.log.store import LogReader, SkillMount, Standing

#: Why nothing is connected any more, for whoever asks.
SHUT = (
    "this session has mounted the skill {target}, which nobody has vouched for, and what came with "
    "it may still run. `reprise skills trust sha256:{tree}` vouches for it; the session's next "
    "kernel then has the network of its environment"
)


@dataclass(frozen=True)
class Vouched:
    """The skills that a session has used (`mounts`, in order), and how each stands now."""

    mounts: tuple[SkillMount, ...] = ()
    standings: Mapping[str, Standing] = field(default_factory=dict)

    def trusts(self, tree: str) -> bool:
        """Whether somebody with the right vouches for this content now."""
        return self.standings.get(tree) == "trusted"

    @property
    def trusted(self) -> frozenset[str]:
        return frozenset(tree for tree in self.standings if self.trusts(tree))

    @property
    def revoked(self) -> tuple[SkillMount, ...]:
        return tuple(each for each in self.mounts if self.standings.get(each.tree) == "revoked")

    @property
    def shut(self) -> tuple[int, str] | None:
        """After which step the session has no network, and why; None where it has.

        What was trusted when it was mounted shuts nothing later, not even when it is revoked:
        then its steps must still be played as they were.
        """
        for mount in self.mounts:
            if not mount.trusted and not self.trusts(mount.tree):
                return mount.seq, SHUT.format(target=mount.target, tree=mount.tree)
        return None

    def mounting(self, tree: str, standing: Standing) -> Vouched:
        """With one more content that is about to be mounted."""
        return Vouched(self.mounts, {**self.standings, tree: standing})


async def vouched(reader: LogReader) -> Vouched:
    """For the session as it stands in the log now."""
    mounts = await reader.skill_mounts()
    return Vouched(tuple(mounts), await standings(reader, {mount.tree for mount in mounts}))


async def standings(reader: LogReader, trees: Collection[str]) -> dict[str, Standing]:
    """How these contents stand. What comes with Reprise is trusted, unless it was revoked."""
    if not trees:
        return {}
    # Most sessions use no skill; their kernels need not read those that come with Reprise.
    from reprise.skills.rows import standing_of  # noqa: PLC0415
    from reprise.skills.shipped import shipped_digests  # noqa: PLC0415

    shipped = shipped_digests()
    found = await reader.standings(trees)
    return {tree: standing_of(said, tree, shipped) for tree, said in found.items()}
