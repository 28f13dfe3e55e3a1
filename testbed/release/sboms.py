"""What is in each image, as a CycloneDX bill of materials: what our locks pin, with the hashes that they pin.

Listed are the Python packages of the image's lock, the programs built with Go, and the clients' jars. Debian's packages
are those that the mirror had on the day of the build, which no file here knows: the builder looks at the image itself
for them (`docker buildx build --sbom=true`, docs/images.md).
"""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from dedup.errors import SpecificationError
from dedup_lab.systems import jars
from testbed.cluster.client_programs import LOCKS, GoClient, JavaClient
from testbed.cluster.images import Image
from testbed.cluster.parts import GoProgram, Part

FRANZ_GO: Final = "github.com/twmb/franz-go"
MARKER: Final = "dedup:python:marker"
"""A property: the Pythons and platforms on which a package is installed; without it, all."""
_PIN: Final = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[^]]*])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\\n]+?))?\s*\\?$"
)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package of a lock: the SHA-256 (hex) of each file that may be installed, and the marker, if it has one."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def pins(lock: Path) -> Iterator[Pin]:
    """The packages of a lock, in its order. SpecificationError for one that is not pinned, or has no hash."""
    for entry in re.split(r"^(?=[^\s#])", lock.read_text(encoding="utf-8"), flags=re.MULTILINE):
        first = entry.partition("\n")[0]
        if not first or first.startswith("#") or not first.strip():
            continue
        pinned, hashes = _PIN.match(first), tuple(_HASH.findall(entry))
        if pinned is None or not hashes:
            raise SpecificationError(
                where=lock.name,
                got=first,
                rule="every package has one version, and the hashes of its files",
                todo="run `make lock`",
            )
        yield Pin(pinned["name"], pinned["version"], pinned["marker"] or "", hashes)


def bill(image: Image, root: Path, version: str, time: int) -> str:
    """An image's bill of materials in JSON. Raises SpecificationError for a lock that pins too little."""
    components = {component.purl: component for component in _components(image, root)}
    named = "\n".join(sorted(f"{purl}" for purl in components))
    whole = Component(type=ComponentType.CONTAINER, name=image.name, version=version, bom_ref=image.name)
    told = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{image.name} {version}\n{named}"),
        components=components.values(),
        metadata=BomMetaData(timestamp=datetime.fromtimestamp(time, UTC), component=whole),
    )
    told.register_dependency(whole, components.values())
    said: str = JsonV1Dot6(told).output_as_string(indent=1)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(said):
        raise AssertionError(f"{image.name}: {wrong}")
    return f"{said}\n"


def locks(image: Image, root: Path) -> Iterator[Path]:
    """The locks by which an image's Python packages are installed."""
    for part in image.parts:
        if part.place.endswith(".lock"):
            yield root / part.place
        elif part.place == LOCKS:
            yield from sorted((root / LOCKS).glob("*.txt"))


def _components(image: Image, root: Path) -> Iterator[Component]:
    for lock in locks(image, root):
        yield from map(_package, pins(lock))
    for part in image.parts:
        yield from _built(part)


def _package(pin: Pin) -> Component:
    url = PackageURL("pypi", None, pin.name, pin.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(url)),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in pin.hashes],
    )
    where = [Property(name=MARKER, value=pin.marker)] if pin.marker else []
    return _component(url, external_references=[files], properties=where)


def _built(part: Part) -> Iterator[Component]:
    """What a part brings that others have made."""
    if isinstance(part, GoProgram):
        yield _go(part.program.module, part.program.version)
    elif isinstance(part, GoClient):
        yield _go(FRANZ_GO, f"v{part.version}")
    elif isinstance(part, JavaClient):
        for jar in jars.read_lock(part.library, part.version):
            classifier = {"classifier": jar.classifier} if jar.classifier else {}
            url = PackageURL("maven", jar.group, jar.artifact, jar.version, {"type": "jar", **classifier})
            yield _component(url, hashes=[HashType(alg=HashAlgorithm.SHA_256, content=jar.sha256)])


def _go(module: str, version: str) -> Component:
    namespace, _, name = module.rpartition("/")
    return _component(PackageURL("golang", namespace, name, version))


def _component(url: PackageURL, **facts: object) -> Component:
    said = {"name": url.name, "version": url.version, "group": url.namespace, "purl": url, "bom_ref": f"{url}"}
    return Component(type=ComponentType.LIBRARY, **said, **facts)  # type: ignore[arg-type]
