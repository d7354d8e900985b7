"""What a custom source is written with.

    from svc.source.base import AbstractSource
    from svc.source.models import SourceRecord

On a laptop: ``python -m svc preview my_source.py --stream s``.
"""

__version__ = "1.0.0"

__all__ = ["__version__"]
