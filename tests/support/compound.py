# SPDX-License-Identifier: BSD-3-Clause
"""Compound files (OLE2) and scans of X-ray microscopes in them (.txrm), as olefile reads them: enough to test a reader."""
import struct
import numpy as np
END, FREE, FATSECT, DIFSECT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFC


def compound(streams, version=3, scatter=False):
    """Bytes of a compound file with {path: bytes}; folders one deep. `scatter`: sectors of streams lie in turn."""
    size = 512 if version == 3 else 4096
    tree = {}
    for path, data in streams.items():
        folder, name = path.split("/")
        tree.setdefault(folder, {})[name] = data
    small, smallnext = b"", []
    sectors, nxt = [], []

    def put(data):
        first = len(sectors)
        n = -(-len(data) // size)
        for k in range(n):
            sectors.append(data[k * size:(k + 1) * size].ljust(size, b"\0"))
            nxt.append(first + k + 1 if k + 1 < n else END)
        return first if n else END
    starts, large = {}, []
    for folder in tree:
        for name, data in tree[folder].items():
            if len(data) < 4096:
                first = len(smallnext)
                n = -(-len(data) // 64)
                smallnext += [first + k + 1 if k + 1 < n else END for k in range(n)]
                small += data.ljust(64 * n, b"\0")
                starts[folder, name] = first if n else END
            else:
                large.append((folder, name, data))
    if scatter:
        parts = [[d[k * size:(k + 1) * size].ljust(size, b"\0") for k in range(-(-len(d) // size))] for _, _, d in large]
        last = [None] * len(parts)
        for k in range(max(map(len, parts), default=0)):
            for i, p in enumerate(parts):
                if k < len(p):
                    if last[i] is None:
                        starts[large[i][:2]] = len(sectors)
                    else:
                        nxt[last[i]] = len(sectors)
                    last[i] = len(sectors)
                    sectors.append(p[k])
                    nxt.append(END)
    else:
        for folder, name, d in large:
            starts[folder, name] = put(d)
    ministart = put(small)
    entries = [["Root Entry", 5, FREE, FREE, 1 if tree else FREE, ministart, len(small)]]
    folders = []
    for folder in tree:
        folders.append(len(entries))
        entries.append([folder, 1, FREE, FREE, FREE, 0, 0])
    for a, b in zip(folders, folders[1:]):
        entries[a][3] = b
    for at, folder in zip(folders, tree):
        own = []
        for name in tree[folder]:
            own.append(len(entries))
            entries.append([name, 2, FREE, FREE, FREE, starts[folder, name], len(tree[folder][name])])
        entries[at][4] = own[0]
        for a, b in zip(own, own[1:]):
            entries[a][3] = b
    raw = b""
    for name, kind, left, right, child, start, length in entries:
        text = name.encode("utf-16-le")
        raw += text.ljust(64, b"\0") + struct.pack("<HBBIII", len(text) + 2, kind, 1, left, right, child) + bytes(36) + struct.pack("<IQ", start & 0xFFFFFFFF, length)
    while len(raw) % size:
        raw += bytes(64) + struct.pack("<HBBIII", 0, 0, 0, FREE, FREE, FREE) + bytes(48)
    dirstart = put(raw)
    mini = struct.pack(f"<{len(smallnext)}I", *smallnext)
    mini += b"\xff" * (-len(mini) % size)
    minifat, nmini = put(mini), len(mini) // size
    each = size // 4
    nfat = ndif = 0
    while True:
        total = len(sectors) + nfat + ndif
        f = -(-total // each)
        d = -(-max(0, f - 109) // (each - 1))
        if (f, d) == (nfat, ndif):
            break
        nfat, ndif = f, d
    fats = [len(sectors) + k for k in range(nfat)]
    difs = [len(sectors) + nfat + k for k in range(ndif)]
    table = nxt + [FATSECT] * nfat + [DIFSECT] * ndif
    table += [FREE] * (nfat * each - len(table))
    body = b"".join(sectors) + struct.pack(f"<{len(table)}I", *table)
    rest = fats[109:]
    for k in range(ndif):
        part = rest[k * (each - 1):(k + 1) * (each - 1)]
        part += [FREE] * (each - 1 - len(part)) + [difs[k + 1] if k + 1 < ndif else END]
        body += struct.pack(f"<{each}I", *part)
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, version, 0xFFFE, 9 if version == 3 else 12, 6) + bytes(6)
    nd = len(raw) // size
    head += struct.pack("<IIIIIIIIII", nd if version == 4 else 0, nfat, dirstart, 0, 4096, minifat if nmini else END, nmini, difs[0] if ndif else END, ndif, 0)[:36]
    head += struct.pack("<109I", *(fats[:109] + [FREE] * (109 - len(fats[:109]))))
    return head.ljust(size, b"\0") + body


def txm(views, angles=None, reference=None, pixel=1.5, source=-40.0, detector=60.0, more=None, **way):
    """`source`, `detector`: of all views, or a list of each; `more`: further streams, whole numbers or bytes."""
    views = np.asarray(views)
    kind = {"uint16": 5, "float32": 10}
    n, h, w = views.shape

    def i(v):
        return struct.pack("<i", v)

    s = {"ImageInfo/ImageWidth": i(w), "ImageInfo/ImageHeight": i(h), "ImageInfo/NoOfImages": i(n), "ImageInfo/ImagesTaken": i(n),
         "ImageInfo/DataType": i(kind[views.dtype.name]), "ImageInfo/PixelSize": struct.pack("<f", pixel),
         "ImageInfo/StoRADistance": np.broadcast_to(source, n).astype("<f4").tobytes(),
         "ImageInfo/DtoRADistance": np.broadcast_to(detector, n).astype("<f4").tobytes()}
    for name, value in (more or {}).items():
        s[name] = value if isinstance(value, bytes) else i(value)
    if angles is not None:
        s["ImageInfo/Angles"] = np.asarray(angles, "<f4").tobytes()
    if reference is not None:
        s["ReferenceData/DataType"] = i(kind[reference.dtype.name])
        s["ReferenceData/Image"] = reference.tobytes()
    for k, v in enumerate(views):
        s[f"ImageData{k // 100 + 1}/Image{k + 1}"] = v.tobytes()
    return compound(s, **way)
