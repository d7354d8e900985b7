"""The public names of the package svc as JSON: what the console's editor completes and explains.

Read from the code, not imported, so that it works with any Python.
"""

import ast
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "python" / "svc"
# What authors import, and the files that define what these modules re-export.
MODULES = {
    "svc.source.base": ["source/base.py"],
    "svc.source.models": ["source/models.py"],
    "svc.http": ["http.py"],
    "svc.text": ["text.py"],
}
DEFINED_IN = ["source/base.py", "source/models.py", "http.py", "pagination.py", "responses.py", "errors.py", "signing.py", "urls.py", "log.py", "text.py"]
# Classes whose members are completed after a dot.
TYPES = ["AbstractSource", "SourceRecord", "SourceConfig", "SourceAuth", "HttpClient", "Response", "Headers", "Log"]
INHERITED = {"HttpClient": ["Pagination"]}


def parse(name):
    return ast.parse((FOLDER / name).read_text(encoding="utf-8"))


def doc_of(node):
    text = ast.get_docstring(node) or ""
    # A double backtick of reStructuredText is a code span of Markdown.
    return text.replace("``", "`")


def parameters_of(function):
    args = function.args
    named = [*args.posonlyargs, *args.args][1 if args.args and args.args[0].arg == "self" else 0 :]
    names = [each.arg for each in (*named, *args.kwonlyargs)]
    if args.kwarg is not None and "Unpack" in ast.unparse(args.kwarg.annotation or ast.Constant("")):
        names += [name for name in ("params", "json", "data", "headers", "timeout", "retries", "auth") if name not in names]
    return names


def signature_of(function, name):
    arguments = ast.unparse(function.args)
    for prefix in ("self, ", "self"):
        arguments = arguments.removeprefix(prefix)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{name}({arguments}){returns}"


def describe_function(function, name=None):
    return {
        "kind": "function",
        "signature": signature_of(function, name or function.name),
        "doc": doc_of(function),
        "parameters": parameters_of(function),
        "returns": ast.unparse(function.returns) if function.returns else None,
    }


def is_overload(node):
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def is_property(node):
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def members_of(node):
    members = {}
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            for target, hint in attributes_of(each):
                members.setdefault(target, {"kind": "attribute", "signature": f"{target}: {hint}" if hint else target, "doc": "", "returns": hint})
        elif isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and not is_overload(each):
            members[each.name] = describe_member(each)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
            hint = ast.unparse(each.annotation)
            members[each.target.id] = {"kind": "attribute", "signature": f"{each.target.id}: {hint}", "doc": "", "returns": hint}
    return members


def describe_member(function):
    if not is_property(function):
        return describe_function(function)
    hint = ast.unparse(function.returns) if function.returns else "Any"
    return {"kind": "attribute", "signature": f"{function.name}: {hint}", "doc": doc_of(function), "returns": hint}


def attributes_of(init):
    """What a constructor sets: `self.url = url`, with the hint of the parameter of that name."""
    hints = {each.arg: ast.unparse(each.annotation) for each in (*init.args.args, *init.args.kwonlyargs) if each.annotation}
    for node in ast.walk(init):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                if not target.attr.startswith("_"):
                    annotation = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
                    yield target.attr, annotation or hints.get(target.attr)


def describe_class(node):
    init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    signature = signature_of(init, node.name).removesuffix(" -> None") if init else node.name
    return {"kind": "class", "signature": signature, "doc": doc_of(node), "parameters": parameters_of(init) if init else [], "returns": node.name}


def add_attribute_docs(types, source):
    """The docstring of AbstractSource explains its attributes in lines: `state   a dict kept between runs`."""
    for line in doc_of(source).splitlines():
        name, _, words = line.strip().partition(" ")
        if name in types["AbstractSource"] and words.startswith(" "):
            types["AbstractSource"][name]["doc"] = words.strip()


def main():
    defined = {}
    for name in DEFINED_IN:
        for node in parse(name).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                defined[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in defined:
                defined[node.targets[0].id] = defined[node.value.id]
    modules = {}
    for module, files in MODULES.items():
        listed = next(
            each.value for each in parse(files[0]).body if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", "") == "__all__"
        )
        names = {}
        for name in ast.literal_eval(listed):
            node = defined.get(name)
            if isinstance(node, ast.ClassDef):
                names[name] = describe_class(node)
            elif isinstance(node, ast.FunctionDef):
                names[name] = describe_function(node)
            else:
                names[name] = {"kind": "function", "signature": name, "doc": "As in the standard library.", "parameters": [], "returns": None}
        modules[module] = names
    types = {
        name: {**members_of(defined[name]), **{key: value for base in INHERITED.get(name, []) for key, value in members_of(defined[base]).items() if key != "request"}}
        for name in TYPES
    }
    add_attribute_docs(types, defined["AbstractSource"])
    json.dump({"modules": modules, "types": types}, sys.stdout, indent=2, ensure_ascii=False)
    print()


main()
