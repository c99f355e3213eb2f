"""Parses the modules of `src` for the architecture tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "amux"

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(SOURCE.rglob("*.py"))


def dotted(path: Path) -> str:
    """The dotted name of a module, without the name of the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """Every class and function in a tree, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Every name a module defines: classes, functions, attributes, constants; not locals."""
    for node in definitions(tree):
        yield node.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    bodies = [tree.body, *(each.body for each in ast.walk(tree) if isinstance(each, ast.ClassDef))]
    for statement in (each for body in bodies for each in body):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case _:
                pass
