"""A package index of our own: real wheels, written by the tests, that the real pip installs without any network."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wheelhouse:
    """A folder of wheels."""

    folder: Path

    def add(self, name: str, version: str, files: Mapping[str, str | bytes], *, requires: Sequence[str] = ()) -> Path:
        """Write one wheel: its files by path inside site-packages."""
        self.folder.mkdir(parents=True, exist_ok=True)
        info = f"{name}-{version}.dist-info"
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
        members = {
            # first, where the standard recommends last: a pip killed among the files leaves a package that looks installed
            f"{info}/METADATA": "\n".join(metadata) + "\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            **files,
        }
        contents = {path: text.encode() if isinstance(text, str) else text for path, text in members.items()}
        record = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in contents.items()]
        contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
        path = self.folder / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in contents.items():
                archive.writestr(member, data)
        return path

    def environ(self) -> dict[str, str]:
        """What makes pip look here and nowhere else, as a user's own PIP_* variables would."""
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder), "PIP_CONFIG_FILE": "/dev/null"}


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
