"""Earthquakes, read day by day: each run continues where the last one ended.

`self.state` is kept between the runs of a pipeline whose `sync.mode` is `incremental`. It is set after the records of
a day, so that a run that breaks off in the middle of one reads that day again.

    python -m svc preview examples/earthquakes.py --config config.json --state state.json

config.json: {"start_date": "2024-01-01"}
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Optional

from svc.source.base import AbstractSource
from svc.source.models import SourceConfig, SourceRecord


class EarthquakeConfig(SourceConfig):
    start_date: date
    end_date: Optional[date] = None
    min_magnitude: float = 4.5
    base_url: str = "https://earthquake.usgs.gov"


class Earthquakes(AbstractSource):
    name = "earthquakes"

    def get_streams(self) -> list[str]:
        return ["events"]

    def check_connection(self) -> bool:
        return self.http.get(f"{self.config.base_url}/fdsnws/event/1/version").ok

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        day = date.fromisoformat(self.state["next_day"]) if "next_day" in self.state else self.config.start_date
        # A day is read when it is over: its list no longer grows.
        end = self.config.end_date or datetime.now(timezone.utc).date()
        while day < end:
            yield from self._events_of(day)
            day += timedelta(days=1)
            self.state["next_day"] = day.isoformat()
        self.log.info("read all events before %s", end)

    def _events_of(self, day: date) -> Iterator[SourceRecord]:
        response = self.http.get(
            f"{self.config.base_url}/fdsnws/event/1/query",
            params={
                "format": "geojson",
                "starttime": day,
                "endtime": day + timedelta(days=1),
                "minmagnitude": self.config.min_magnitude,
                "orderby": "time-asc",
            },
        )
        for event in response.raise_for_status().json()["features"]:
            longitude, latitude, depth = event["geometry"]["coordinates"]
            happened = datetime.fromtimestamp(event["properties"]["time"] / 1000, timezone.utc)
            yield SourceRecord(
                id=event["id"],
                data={
                    "happened_at": happened,
                    "place": event["properties"]["place"],
                    "magnitude": event["properties"]["mag"],
                    "longitude": longitude,
                    "latitude": latitude,
                    "depth_km": depth,
                },
            )
