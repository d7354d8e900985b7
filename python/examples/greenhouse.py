"""Plants and readings of a made-up greenhouse: no server and no credentials, so it can be tried at once.

    python -m svc preview examples/greenhouse.py --stream readings
"""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord

PLANTS = ["basil", "fern", "tomato", "orchid", "lemon"]


class GreenhouseConfig(SourceConfig):
    plants: int = 3
    hours: int = 24


class Greenhouse(AbstractSource):
    name = "greenhouse"

    def get_streams(self) -> list[str]:
        return ["plants", "readings"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        plants = PLANTS[: self.config.plants]
        self.log.info("reading %s of %d plants", stream, len(plants))
        if stream == "plants":
            for number, plant in enumerate(plants, start=1):
                yield SourceRecord(id=number, data={"plant": plant, "bed": f"B{number}", "watered": number % 2 == 0})
        else:
            yield from self._readings(plants)

    def _readings(self, plants: list[str]) -> Iterator[SourceRecord]:
        first = datetime(2026, 1, 1, tzinfo=timezone.utc)
        for hour in range(self.config.hours):
            for number, plant in enumerate(plants):
                yield SourceRecord(
                    id=f"{plant}-{hour}",
                    data={
                        "plant": plant,
                        "measured_at": first + timedelta(hours=hour),
                        "celsius": 18 + (hour * 7 + number * 3) % 11 / 2,
                        "humidity": {"air": 40 + hour % 12, "soil": 30 + number},
                    },
                )
