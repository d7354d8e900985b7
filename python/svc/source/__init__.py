"""The base class of a source (`svc.source.base`) and what it is made of (`svc.source.models`)."""
