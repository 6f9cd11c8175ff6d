"""Makes what is stored look as old as it likes, since no test can wait for a grace."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg


def age_blobs(dsn: str, home: Path) -> None:
    """All blobs, and all their files, were touched long ago."""
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("UPDATE reprise.blobs SET touched_at = '-infinity'")
    for path in (home / "blobs").rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))


def blob_rows(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as superuser:
        rows = superuser.execute("SELECT encode(sha256, 'hex') FROM reprise.blobs").fetchall()
    return {str(row[0]) for row in rows}


def blob_files(home: Path) -> set[str]:
    return {path.name for path in (home / "blobs").rglob("*") if path.is_file()}
