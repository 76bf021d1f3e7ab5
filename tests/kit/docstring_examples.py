"""Examples in docstrings, and what is wrong with them.

    for example in examples_of(module):
        example.where, problems(example, known)

An example is an indented block that is Python, or what a docstring ends with at its margin: the formatter moves an
example there that nothing follows. It is checked as far as it can be without what it leaves to the reader's
imagination (``store``, ``folder``): every function it calls exists and takes these arguments, every attribute of a value
whose class is known exists, and every other attribute is one that code of ours defines or uses.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import dataclasses
import importlib
import inspect
import io
import ipaddress
import logging
import pathlib
import pkgutil
import random
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from types import EllipsisType, ModuleType
from typing import Any, Final

_LOOKS_LIKE_PYTHON: Final = re.compile(
    r"^(await |async |with |for \w+ in |from \w|import \w|\w+ = .*\()", re.M
)
_STANDARD: Final = (
    *(
        str,
        bytes,
        dict,
        list,
        set,
        pathlib.Path,
        io.StringIO,
        random.Random,
        logging.Handler,
        ipaddress.IPv4Network,
    ),
    *(
        asyncio.AbstractEventLoop,
        asyncio.StreamReader,
        asyncio.StreamWriter,
        asyncio.TaskGroup,
        asyncio.Event,
    ),
)


@dataclasses.dataclass(frozen=True)
class Example:
    """One block of a docstring."""

    module: ModuleType
    where: str
    text: str


@dataclasses.dataclass(frozen=True)
class Known:
    """The names that modules define, and every attribute that their code defines or uses: it is checked by mypy."""

    names: dict[str, list[Any]]
    attributes: set[str]


def load_modules(package: ModuleType) -> list[ModuleType]:
    """The package's modules, but for those that are programs."""
    found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    return [package, *(importlib.import_module(info.name) for info in found if "__main__" not in info.name)]


def known_names(modules: list[ModuleType]) -> Known:
    names: dict[str, list[Any]] = {}
    attributes = {name for kind in _STANDARD for name in dir(kind)}
    for module in modules:
        tree = ast.parse(inspect.getsource(module) or "")
        for name in {
            name for statement in tree.body for name in _defined(statement) if hasattr(module, name)
        }:
            names.setdefault(name, []).append(getattr(module, name))
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    attributes.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Attribute(attr=name):
                    attributes.add(name)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    attributes.add(name)
    return Known(names, attributes)


def examples_of(module: ModuleType) -> Iterator[Example]:
    tree = ast.parse(inspect.getsource(module) or "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = module.__name__ if isinstance(node, ast.Module) else f"{module.__name__}.{node.name}"
            docstring = ast.get_docstring(node) or ""
            for block in [*_indented_blocks(docstring), *_blocks_at_the_margin(docstring)]:
                if _is_python(block):
                    yield Example(module, name, block)


def examples_of_page(package: ModuleType, page: pathlib.Path) -> Iterator[Example]:
    """The blocks of a Markdown page that are marked as Python."""
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        yield Example(package, page.name, _without_gaps(block))


def problems(example: Example, known: Known) -> list[str]:
    try:
        tree = ast.parse(example.text)
    except SyntaxError as error:
        return [f"{example.where}: not Python: {error.msg}: {example.text.splitlines()[0]}"]
    reader = _Reader(example.module, known, tree)
    found = [problem for node in ast.walk(tree) for problem in reader.problems_of(node)]
    return [f"{example.where}: {problem}" for problem in found]


def _defined(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _indented_blocks(docstring: str) -> Iterator[str]:
    block: list[str] = []
    for line in [*docstring.splitlines(), "end"]:
        if line.startswith("    ") or (not line.strip() and block):
            block.append(line)
        elif block:
            text = _without_gaps(textwrap.dedent("\n".join(block)).strip())
            yield from [text] if _parses(text) else text.split("\n\n")
            block = []


def _blocks_at_the_margin(docstring: str) -> Iterator[str]:
    """All that follows the first paragraph if that is Python, else each paragraph that is; prose is not."""
    _, _, rest = docstring.partition("\n\n")
    rest = _without_gaps(rest.strip("\n"))
    if _parses(rest):
        yield rest
    else:
        paragraphs = re.split(r"\n\n(?=\S)", rest)
        yield from (each for each in paragraphs if not each.startswith(" ") and _parses(each))


def _without_gaps(text: str) -> str:
    """What an example leaves out, as Python: ``…`` for a value, and at the end of arguments for further ones."""
    return re.sub(r", \.\.\.\)", ", **_)", text.replace("…", "..."))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _is_python(block: str) -> bool:
    if not _parses(block):
        return bool(_LOOKS_LIKE_PYTHON.search(block))
    parts = ast.walk(ast.parse(block))
    return any(isinstance(part, ast.Call | ast.Attribute | ast.Await | ast.Assign) for part in parts)


class _Reader:
    """Knows which class each name of an example has, as far as constructors and annotations say."""

    def __init__(self, module: ModuleType, known: Known, tree: ast.Module) -> None:
        self._module = module
        self._known = known
        self._bound: dict[str, Any] = {}
        self._own = {name for part in ast.walk(tree) if isinstance(part, ast.stmt) for name in _defined(part)}
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[target], value=value):
                    self._bind(target, self._class(value))
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    self._bind(target, self._class(value))
                case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                    self._bind(target, None)
                case ast.NamedExpr(target=target):
                    self._bind(target, None)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self._bound[name] = None
                case ast.arg(arg=name) | ast.alias(name=name) | ast.ExceptHandler(name=str(name)):
                    self._bound[name] = None
                case ast.MatchAs(name=str(name)):
                    self._bound[name] = None

    def problems_of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name not in self._bound and not self._meant(name):
                yield f"calls {name}, which does not exist"
            case ast.Name(id=name) if name[0].isupper() and name not in self._bound and not self._meant(name):
                yield f"names {name}, which does not exist"
            case ast.Attribute(value=value, attr=name) if not self._has(value, name):
                yield f"{ast.unparse(node)} does not exist"
            case ast.Call() if not self._takes(node):
                yield f"{ast.unparse(node)} does not fit the function's parameters"

    def _bind(self, target: ast.expr, meaning: Any) -> None:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self._bound[name.id] = meaning if name is target else None

    def _meant(self, name: str) -> list[Any]:
        """What a name may stand for: the module's own, else a builtin, else whatever has it elsewhere."""
        if name in vars(self._module):
            return [vars(self._module)[name]]
        if hasattr(builtins, name):
            return [getattr(builtins, name)]
        if name in sys.stdlib_module_names:
            return [importlib.import_module(name)]
        found = self._known.names.get(name, [])
        return found or [kind for kind in _STANDARD if kind.__name__ == name]

    def _value(self, node: ast.expr) -> Any:
        """The function or class that an expression names, or None where that can't be said."""
        match node:
            case ast.Name(id=name) if name not in self._bound:
                meant = self._meant(name)
                return meant[0] if len(meant) == 1 else None
            case ast.Attribute(value=value, attr=name):
                if (kind := self._class(value)) is not None:
                    return getattr(kind, name, None)
                owner = self._value(value)
                return getattr(owner, name, None) if isinstance(owner, type | ModuleType) else None
        return None

    def _class(self, node: ast.expr) -> type | None:
        """The class of an expression's value."""
        match node:
            case ast.Name(id=name):
                return typing.cast("type | None", self._bound.get(name))
            case ast.Await(value=value):
                return self._class(value)
            case ast.Call(func=function):
                made = self._value(function)
                if isinstance(made, type):
                    return made
                hints: dict[str, Any] = {}
                with contextlib.suppress(NameError, TypeError, AttributeError):
                    hints = typing.get_type_hints(made)
                result = hints.get("return")
                if isinstance(result, type) and result is not EllipsisType:
                    return result
        return None

    def _has(self, value: ast.expr, name: str) -> bool:
        owner = self._class(value)
        meant = self._value(value) if owner is None else None
        if isinstance(meant, type) or (isinstance(meant, ModuleType) and hasattr(meant, name)):
            return hasattr(meant, name)
        if owner is None or owner.__module__ == "contextlib":
            return name in self._known.attributes | self._own
        return hasattr(owner, name) or name in _instance_attributes(owner)

    def _takes(self, call: ast.Call) -> bool:
        open_ended = any(
            isinstance(part, ast.Starred) or (isinstance(part, ast.Constant) and part.value is ...)
            for part in call.args
        )
        if open_ended or any(keyword.arg is None for keyword in call.keywords):
            return True
        function = self._value(call.func)
        if function is None or str(getattr(function, "__module__", "")).split(".")[0] != "pilothouse":
            return True
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError, NameError):  # A Struct may name types that only type checkers import.
            return True
        positional: list[Any] = [None] * len(call.args)
        if isinstance(call.func, ast.Attribute) and (kind := self._class(call.func.value)) is not None:
            static = inspect.getattr_static(kind, call.func.attr, None)
            positional[:0] = [None] if inspect.isfunction(static) else []  # self
        try:
            signature.bind(*positional, **{str(keyword.arg): None for keyword in call.keywords})
        except TypeError:
            return False
        return True


def _instance_attributes(owner: Any) -> set[str]:
    """Attributes that instances get: annotated in the class, or assigned to ``self``."""
    found: set[str] = set()
    for kind in getattr(owner, "__mro__", ()):
        found |= set(getattr(kind, "__annotations__", ()))
        with contextlib.suppress(OSError, TypeError):
            found |= set(re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(kind)))
    return found
