"""The configuration and authentication classes of a program, as `extracted_schema` shows them."""

from __future__ import annotations

import ast
import re
from typing import Any

from cell.source_class import Classes

CONFIG_BASES = frozenset({"svc.source.models.SourceConfig", "svc.source.base.SourceConfig"})
AUTH_BASES = frozenset({"svc.source.models.SourceAuth"})


def empty_schema() -> dict[str, Any]:
    return {"config_class_name": None, "config_fields": [], "auth_class_name": None, "auth_type": None}


def read_schema(classes: Classes, source: ast.ClassDef | None) -> dict[str, Any]:
    config = _find(classes, source, ("config",), CONFIG_BASES, "SourceConfig", ("Config",))
    auth = _find(classes, source, ("authentication", "auth"), AUTH_BASES, "SourceAuth", ("Auth", "Authentication"))
    return {
        "config_class_name": config.name if config else None,
        "config_fields": _fields(classes, config) if config else [],
        "auth_class_name": auth.name if auth else None,
        "auth_type": _auth_type(classes, auth) if auth else None,
    }


def settings_enforced(classes: Classes, source: ast.ClassDef | None) -> bool:
    """Whether a source never runs without its required settings (`svc.source.base.build_settings`).

    A class that was found by its name alone may serve another purpose, and an ``__init__`` of the author's own decides
    for itself what it needs.
    """
    config = _find(classes, source, ("config",), CONFIG_BASES, "SourceConfig", ("Config",))
    if config is None or source is None:
        return False
    declared = _named_by(source, ("config",)) == config.name
    if not declared and not classes.extends(config, CONFIG_BASES, frozenset({"SourceConfig"})):
        return False
    statements = [each for node in classes.lineage(config) for each in node.body]
    return not any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in statements)


def source_name(classes: Classes, source: ast.ClassDef) -> str:
    """The class attribute `name` where it is a literal, else the class name in snake case."""
    for each in classes.lineage(source):
        value = _literal(each, "name")
        if isinstance(value, str) and value:
            return value
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", source.name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


def _find(
    classes: Classes,
    source: ast.ClassDef | None,
    attributes: tuple[str, ...],
    bases: frozenset[str],
    base: str,
    endings: tuple[str, ...],
) -> ast.ClassDef | None:
    """In the order of `svc.source.base.find_class`: named by the source, a subclass of the base, a usual name."""
    named = _named_by(source, attributes) if source else None
    if named in classes.all:
        return classes.all[named]
    sources = {id(source)}
    candidates = [node for node in classes.all.values() if id(node) not in sources]
    extending = [node for node in candidates if classes.extends(node, bases, frozenset({base}))]
    if extending:
        return (classes.leaves(extending) or extending)[-1]
    plain = [
        node
        for node in candidates
        if node.name.endswith(endings) and any(isinstance(each, ast.AnnAssign) for each in node.body)
    ]
    return plain[-1] if plain else None


def _named_by(source: ast.ClassDef, attributes: tuple[str, ...]) -> str | None:
    for each in source.body:
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            if each.targets[0].id in [f"{name}_class" for name in attributes] and isinstance(each.value, ast.Name):
                return each.value.id
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id in attributes:
            return _hint(each.annotation)
    return None


def _fields(classes: Classes, node: ast.ClassDef) -> list[dict[str, Any]]:
    fields: dict[str, dict[str, Any]] = {}
    for each in reversed(classes.lineage(node)):
        for statement in each.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            name, hint = statement.target.id, _hint(statement.annotation)
            if name.startswith("_") or hint.startswith(("ClassVar", "typing.ClassVar")):
                continue
            fields[name] = {"name": name, "type_hint": hint, "required": not _has_default(statement.value)}
    return list(fields.values())


def _hint(annotation: ast.expr) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    try:
        return ast.unparse(annotation)
    except RecursionError:
        return "Any"


def _has_default(value: Any) -> bool:
    """`field()` of a dataclass without a default, and `Field(...)` give no default."""
    if value is None:
        return False
    if isinstance(value, ast.Call) and getattr(value.func, "id", getattr(value.func, "attr", "")) in ("field", "Field"):
        named = {each.arg for each in value.keywords}
        first = value.args[0] if value.args else None
        given = first is not None and not (isinstance(first, ast.Constant) and first.value is Ellipsis)
        return bool(named & {"default", "default_factory"}) or given
    return not (isinstance(value, ast.Constant) and value.value is Ellipsis)


def _auth_type(classes: Classes, node: ast.ClassDef) -> str | None:
    for each in classes.lineage(node):
        for attribute in ("type", "auth_type"):
            value = _literal(each, attribute)
            if isinstance(value, str):
                return value
    return None


def _literal(node: ast.ClassDef, name: str) -> Any:
    """The literal value of a class attribute: `name = "x"`, `name: str = "x"` or `name: Literal["x"]`."""
    for each in node.body:
        if isinstance(each, ast.Assign):
            if any(isinstance(target, ast.Name) and target.id == name for target in each.targets):
                return each.value.value if isinstance(each.value, ast.Constant) else None
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id == name:
            if isinstance(each.value, ast.Constant):
                return each.value.value
            found = re.match(r"^(?:typing\.)?Literal\[(['\"])([^'\"]+)\1\]$", _hint(each.annotation))
            return found.group(2) if found and each.value is None else None
    return None
