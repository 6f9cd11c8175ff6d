"""Where a session's log ends, and where an append moves it (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Head:
    """The numbers the next append gets, and the chain it extends."""

    next_event: int
    next_seq: int
    next_output: int
    chain: bytes

    def after_step(self, chain: bytes) -> Head:
        return replace(
            self, next_event=self.next_event + 1, next_seq=self.next_seq + 1, chain=chain
        )

    def after_outcome(self, chain: bytes, outputs: int) -> Head:
        return replace(
            self,
            next_event=self.next_event + 1,
            next_output=self.next_output + outputs,
            chain=chain,
        )

    def after_output(self) -> Head:
        return replace(self, next_output=self.next_output + 1)
