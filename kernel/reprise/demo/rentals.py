"""Makes `rentals.csv`, the demo notebook's data: hourly bike rentals of an invented town.

Deterministic on every platform and Python version, so a test holds the shipped file to it. The
data is dirty on purpose, in the ways real exports are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

HEADER = "time,station,weather,temperature_c,wind_kmh,rain_mm,rentals"
_FIRST = datetime(2025, 4, 1)  # noqa: DTZ001 - the town's own clock, as its export has it
_DAYS = 56
_STATIONS = {"Harbour": 1.0, "Old Mill": 0.55, "University": 1.35}
_HOLIDAYS = {"2025-04-18", "2025-04-21", "2025-05-01"}


def rentals_csv() -> str:
    """The whole file."""
    return "\n".join([HEADER, *_rows(Random(1817))]) + "\n"  # noqa: S311 - not for secrets


def _rows(random: Random) -> Iterator[str]:
    wet = False
    for hours in range(_DAYS * 24):
        time = _FIRST + timedelta(hours=hours)
        season = 8 + 7 * hours / (_DAYS * 24)
        temperature = season + 5 * math.sin((time.hour - 9) / 24 * 2 * math.pi)
        temperature += _normal(random) * 1.5
        wet = random.random() < (0.75 if wet else 0.06)
        rain = round(-1.4 * math.log(1 - random.random()), 1) if wet else 0.0
        wind = round(9 + 6 * abs(_normal(random)), 1)
        weather = "rain" if rain > 0 else "cloudy" if random.random() < 0.4 else "clear"
        for station, size in _STATIONS.items():
            mean = size * _demand(time) * (1 + 0.035 * (temperature - 10))
            mean *= math.exp(-0.35 * rain) * (1 - 0.008 * max(wind - 15, 0))
            count = max(0, round(mean + math.sqrt(max(mean, 0.5)) * _normal(random)))
            yield from _dirty(
                random,
                [f"{time:%Y-%m-%d %H:%M}", station, weather, f"{temperature:.1f}"],
                [f"{wind}", f"{rain}", f"{count}"],
            )


def _demand(time: datetime) -> float:
    """Rentals in an hour at a station of size 1, at 10 degrees in dry weather."""
    free = time.weekday() >= 5 or f"{time:%Y-%m-%d}" in _HOLIDAYS
    peaks = (
        [(14.5, 3.6, 24.0)] if free else [(8.0, 1.1, 42.0), (17.3, 1.6, 48.0), (13.0, 3.0, 14.0)]
    )
    return 2.0 + sum(
        height * math.exp(-(((time.hour - at) / width) ** 2)) for at, width, height in peaks
    )


def _dirty(random: Random, left: list[str], right: list[str]) -> Iterator[str]:
    dice = random.random()
    if dice < 0.006:
        left[3] = "n/a"  # a thermometer that was off
    elif dice < 0.010:
        right[2] = "-1"  # a station that could not be reached
    elif dice < 0.018:
        left[2] = left[2].upper() + " "
    row = ",".join(left + right)
    yield row
    if dice > 0.996:
        yield row  # sent twice


def _normal(random: Random) -> float:
    """Box and Muller, from `Random.random` alone: the one method whose values never change."""
    radius = math.sqrt(-2 * math.log(1 - random.random()))
    return radius * math.cos(2 * math.pi * random.random())
