#!/usr/bin/env python3
"""Writes an SPDX 2.3 document (JSON) of the Debian packages in a folder: their checksums, the packages
they depend on, the Debian packages whose headers and static libraries were compiled into them, the report's
page, the npm packages that are bundled into it, and those that made it.

usage: sbom.py VERSION PACKAGES-FOLDER BUILD-FOLDER OUT

The second list is ninja's: every header that a compilation of the build read, and every archive that
build.ninja links by its path, as dpkg names their packages. The page is
of the build folder, its packages are in merge/page/package-lock.json. SOURCE_DATE_EPOCH is the document's time."""

import base64
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def source_of(build):
    return re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M).group(1)


def files_compiled_in(build):
    """Paths outside the source and the build folder."""
    source = source_of(build)
    files = set(re.findall(r"(?<=[\s\"])/usr/lib[^\s\"]*\.a\b", (build / "build.ninja").read_text()))
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        path = line.strip()
        if line.startswith("    /"):
            path = os.path.normpath(path)
            if not path.startswith((source + "/", str(build) + "/")):
                files.add(path)
    return sorted(files)


def packages_of(files):
    """Debian's packages of the files, with their versions and architectures."""
    names = set()
    for first in range(0, len(files), 500):
        found = subprocess.run(["dpkg", "-S", *files[first : first + 500]], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for line in found.splitlines():
            if not line.startswith("diversion "):
                names.update(line.split(": ")[0].split(", "))
    form = "${source:Package}\t${Package}\t${Version}\t${Architecture}\n"
    return [line.split("\t") for line in sorted(output("dpkg-query", "-W", "-f", form, *sorted(names)).splitlines())]


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def debian_package(name, version, arch, origin=None):
    where = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={arch}"
    package = {"SPDXID": identifier(f"{name}-{version}"), "name": name, "versionInfo": version,
               "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
               "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                 "referenceLocator": where}]}
    if origin and origin != name:
        package["sourceInfo"] = f"built from the Debian source package {origin}"
    return package


PAGE_TOOLS = {"esbuild", "typescript"}


def page_of(build):
    """The page of this build; nothing where the build has none."""
    given = re.search(r"^TRAPLINE_PAGE_TEMPLATE:FILEPATH=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    path = pathlib.Path(given.group(1)) if given else build / "page/page_template.cc"
    if not path.exists():
        return None
    return {"SPDXID": "SPDXRef-page", "name": "trapline-page", "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseDeclared": "GPL-2.0-or-later",
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}]}


def npm_packages(build, is_wanted):
    """Those of the page's lock file: is_wanted(name, facts)."""
    lock = json.loads((pathlib.Path(source_of(build)) / "merge/page/package-lock.json").read_text())
    named = [(path.rsplit("node_modules/", 1)[1], its) for path, its in lock["packages"].items() if path]
    return [{"SPDXID": identifier(f"npm-{name}-{its['version']}"), "name": name, "versionInfo": its["version"],
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseDeclared": its["license"],
             "checksums": [{"algorithm": "SHA512",
                            "checksumValue": base64.b64decode(its["integrity"].removeprefix("sha512-")).hex()}],
             "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                               "referenceLocator": f"pkg:npm/{name}@{its['version']}"}]} for name, its in named if is_wanted(name, its)]


def main():
    version, folder, build, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4]
    packages, relations = {}, []

    def add(package):
        packages.setdefault(package["SPDXID"], package)
        return package["SPDXID"]

    def relate(one, how, other):
        relations.append({"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other})

    compiled_in = [add(debian_package(name, its, arch, origin))
                   for origin, name, its, arch in packages_of(files_compiled_in(build))]
    if page := page_of(build):
        compiled_in.append(add(page))
        for package in npm_packages(build, lambda _, its: not its.get("dev")):
            compiled_in.append(add(package))
            relate(add(page), "CONTAINS", add(package))
        for package in npm_packages(build, lambda name, _: name in PAGE_TOOLS):
            relate(add(package), "BUILD_TOOL_OF", add(page))
    ours, wants = {}, []
    for file in sorted(folder.glob("*.deb")):
        name, its, arch, depends = output("dpkg-deb", "-f", str(file), "Package", "Version", "Architecture",
                                          "Depends").split("\n", 3)
        fields = dict(line.split(": ", 1) for line in (name, its, arch, depends.strip()) if ": " in line)
        package = debian_package(fields["Package"], fields["Version"], fields["Architecture"])
        package.update(licenseDeclared="GPL-2.0-or-later", licenseConcluded="NOASSERTION", packageFileName=file.name,
                       copyrightText="Copyright (C) 2025-2026 Trapline authors",
                       checksums=[{"algorithm": "SHA256",
                                   "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}])
        here = ours[package["name"]] = add(package)
        relate("SPDXRef-DOCUMENT", "DESCRIBES", here)
        if fields["Architecture"] != "all":
            for other in compiled_in:
                relate(other, "BUILD_DEPENDENCY_OF", here)
        wants += [(here, alternatives.split(" | ")[0])
                  for alternatives in filter(None, fields.get("Depends", "").split(", "))]
    for here, wanted in wants:
        name, condition = re.match(r"([^\s(:]+)(?:.*\(([^)]*)\))?", wanted).groups()
        dependency = {"SPDXID": identifier("depends-" + name), "name": name,
                      "downloadLocation": "NOASSERTION", "filesAnalyzed": False}
        if condition:
            dependency["comment"] = "version " + condition
        relate(here, "DEPENDS_ON", ours.get(name) or add(dependency))
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"packages": list(packages.values()), "relationships": relations}
    sum_of_body = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"trapline-{version}",
                "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, f"trapline {version} {sum_of_body}").urn,
                "creationInfo": {"created": created, "creators": ["Tool: trapline-sbom"]}, **body}
    with open(out, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


main()
