"""The files outside of the checkout that a compiler reads: headers of the toolchain and of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.adapters.files import sha256
from flashcore_ci.model.identity import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFiles:
    """Files outside of ``root``. Their ``folders`` are in the order in which the compiler searches them.

    Headers of ``libraries`` are the machine's, also where the interpreter's packages are in a folder of the checkout.
    """

    root: Path
    toolchain: Path
    folders: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    _ours: dict[str, bool] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)
    _earlier: dict[tuple[str, tuple[str, ...]], list[str]] = field(default_factory=dict)

    def is_ours(self, name: str) -> bool:
        """Tell whether a compiler that works in ``root`` means a file of the checkout."""
        if name not in self._ours:  # a translated source names each of its headers a hundred times
            self._ours[name] = self._find_ours(Path(name))
        return self._ours[name]

    def _find_ours(self, path: Path) -> bool:
        if not path.is_absolute():
            return True
        path = path.resolve()
        elsewhere = (str(self.toolchain), *self.libraries)
        return path.is_relative_to(self.root) and not any(path.is_relative_to(folder) for folder in elsewhere)

    def is_header(self, path: Path) -> bool:
        """Tell whether this is in a folder of the compiler's own headers."""
        return any(path.is_relative_to(folder) for folder in (str(self.toolchain), *self.folders, *self.libraries))

    def digest(self, includes: Sequence[str], names: Sequence[str]) -> str:
        """Digest these files, and which files of their names the compiler would find earlier."""
        first = tuple(str(self.root / include) for include in includes)
        return digest_of("system files", [(name, self._sha256(name), self._find_earlier(name, first)) for name in names])

    def _sha256(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = sha256(Path(name))
        return self._digests[name]

    def _find_earlier(self, name: str, first: tuple[str, ...]) -> list[str]:
        if (name, first) not in self._earlier:
            path, found = Path(name), set()
            folders = (*first, *self.folders)
            for number, folder in enumerate(folders):
                if number >= len(first) and path.is_relative_to(folder):
                    inside = path.relative_to(folder)
                    candidates = (Path(earlier, inside) for earlier in folders[:number])
                    found |= {str(candidate) for candidate in candidates if candidate.is_file() and candidate != path}
            self._earlier[name, first] = sorted(found)
        return self._earlier[name, first]
