#!/usr/bin/env python3
"""A wheel of bindings/python with the shared library in it, without any build tool.

    make_wheel.py VERSION LIBRARY OUTPUT_FOLDER"""

import base64
import hashlib
import os
import sys
import sysconfig
import zipfile

DATE = (1980, 1, 1, 0, 0, 0)  # the same files make the same wheel


def main():
    version, library, output = sys.argv[1:]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bindings", "python", "zinc")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"py3-none-{platform}"
    info = f"zinc_train-{version}.dist-info"
    files = {f"zinc/{name}": os.path.join(source, name) for name in sorted(os.listdir(source)) if name.endswith(".py")}
    files["zinc/libzinc.so"] = library
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: zinc-train\nVersion: {version}\n"
                            "Summary: Train language models that are bigger than memory\n"
                            "Requires-Python: >=3.9\nRequires-Dist: numpy\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: zinc\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/top_level.txt": "zinc\n",
    }
    path = os.path.join(output, f"zinc_train-{version}-{tag}.whl")
    record = []
    with zipfile.ZipFile(path + ".tmp", "w", zipfile.ZIP_DEFLATED) as wheel:
        contents = [(name, open(file, "rb").read()) for name, file in files.items()]
        contents += [(name, text.encode()) for name, text in texts.items()]
        for name, data in contents:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(wheel, name, data)
        add(wheel, f"{info}/RECORD", ("".join(record) + f"{info}/RECORD,,\n").encode())
    os.replace(path + ".tmp", path)
    print(path)


def add(wheel, name, data):
    entry = zipfile.ZipInfo(name, DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    wheel.writestr(entry, data)


if __name__ == "__main__":
    main()
