"""An import contract of this project: modules are pure unless pyproject.toml lists them as modules with I/O."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PureByDefault(Contract):
    """Check that only the listed modules import I/O libraries, or other modules with I/O.

    A pure module that imports nothing but pure modules cannot reach I/O through others either. An entry of
    `modules_with_io` covers the modules below it. An entry that covers no I/O is an error, so the list stays short.
    """

    type_name = "pure_by_default"

    packages = fields.ListField(subfield=fields.StringField())
    io_libraries = fields.ListField(subfield=fields.StringField())
    modules_with_io = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the imports that break the rule, and the entries that cover no I/O."""
        listed = list(self.modules_with_io)
        libraries = set(self.io_libraries)
        own = [name for name in graph.modules if name.split(".")[0] in self.packages]
        with_io = {name for name in own if any(_is_below(name, entry) for entry in listed)}
        broken, used = [], set()
        for module in own:
            for imported in graph.find_modules_directly_imported_by(module):
                if imported.split(".")[0] not in libraries and imported not in with_io:
                    continue
                if module in with_io:
                    used |= {entry for entry in listed if _is_below(module, entry)}
                else:
                    broken.append((module, imported))
        unused = sorted(set(listed) - used)
        return ContractCheck(kept=not broken and not unused, metadata={"broken": sorted(broken), "unused": unused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each problem."""
        for module, imported in check.metadata["broken"]:
            output.print_error(f"{module} imports {imported}: move the I/O, or list the module in modules_with_io")
        for entry in check.metadata["unused"]:
            output.print_error(f"{entry} does no I/O: remove it from modules_with_io")


def _is_below(module: str, entry: str) -> bool:
    return module == entry or module.startswith(f"{entry}.")
