#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Small NIfTI, MRC and DICOM files as nibabel, mrcfile and pydicom write them: tests/fuzz/corpus/grid.

    python3 -m venv reference-venv
    reference-venv/bin/pip install nibabel==5.4.2 mrcfile==1.5.4 pydicom==3.0.2
    reference-venv/bin/python tests/reference/make_grid_reference.py

The first byte of each says its suffix (0 .nii, 1 .nii.gz, 2 .mrc, 3 .dcm, 4 .xml of BigDataViewer), the file follows. Numbers follow from their
position in the file (value_of, as in make_store_reference.py), so that tests/io/grids_test.cpp knows them.
"""
import tempfile
from pathlib import Path

import mrcfile
import nibabel
import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian

CORPUS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "grid"


def value_of(shape, dtype):
    """In C order; a NIfTI array of shape (x, y, z) is its transpose."""
    lin = np.arange(int(np.prod(shape))).reshape(shape)
    v = (31 * lin + 7 * (lin // 13)) % 251
    kind = np.dtype(dtype).kind
    if kind == "i":
        v = v - 125
    if kind == "f":
        v = v / 4 - 20
    return v.astype(dtype)


def keep(name, suffix, path):
    CORPUS.mkdir(parents=True, exist_ok=True)
    (CORPUS / name).write_bytes(bytes([suffix]) + path.read_bytes())
    print(name, path.stat().st_size)


def nifti(top, name, dtype, shape=(5, 9, 11), affine=None, second=False, big=False, slope=None, packed=False, qform=False,
          units=("mm", None), pixdim=None):
    data = value_of(shape, dtype).T
    kind = nibabel.Nifti2Image if second else nibabel.Nifti1Image
    header = kind.header_class(endianness=">" if big else "<")
    header.set_data_dtype(dtype)
    image = kind(data, affine, header)
    if qform:
        image.set_sform(None, 0)
        image.set_qform(affine, 1)
    if units:
        image.header.set_xyzt_units(*units)
    image.header["descrip"] = b"made by nibabel"
    path = top / (name + (".nii.gz" if packed else ".nii"))
    nibabel.save(image, path)
    if slope:  # numbers stay as they are
        raw = bytearray(path.read_bytes())
        at = (176, 184) if second else (112, 116)
        wide = (">" if big else "<") + ("f8" if second else "f4")
        for offset, value in zip(at, slope):
            number = np.array(value, wide).tobytes()
            raw[offset:offset + len(number)] = number
        path.write_bytes(raw)
    read = nibabel.load(path)
    wanted = value_of(shape, dtype).astype(float).T
    assert np.allclose(read.get_fdata(), wanted if slope is None else slope[0] * wanted + slope[1])
    keep(name, 1 if packed else 0, path)


def mrc(top, name, dtype, shape=(5, 9, 11), change=None, stack=False, big=False):
    path = top / (name + ".mrc")
    with mrcfile.new(path, overwrite=True) as f:
        f.set_data(value_of(shape, dtype))
        if stack:
            f.set_image_stack()
        f.voxel_size = (1.5, 2.0, 2.5)
        f.header.origin = (10, -20, 30)
        f.add_label("made by mrcfile")
        if change:
            change(f)
    if big:
        with mrcfile.open(path) as f:
            header, data = f.header.copy(), f.data.copy()
        header = header.byteswap().view(header.dtype.newbyteorder(">"))
        header["machst"] = [0x11, 0x11, 0, 0]
        path.write_bytes(header.tobytes() + data.astype(data.dtype.newbyteorder(">")).tobytes())
    with mrcfile.open(path) as f:
        assert np.array_equal(f.data, value_of(shape, dtype))
    keep(name, 2, path)


def main():
    top = Path(tempfile.mkdtemp())
    turned = np.array([[0, 2, 0, -5], [-1.5, 0, 0, 7.25], [0, 0, 3, 11], [0, 0, 0, 1.0]])
    straight = np.diag([0.5, 0.75, 2, 1.0])
    nifti(top, "nifti_scaled", "<i2", affine=turned, slope=(0.5, 10))
    nifti(top, "nifti_big", ">f4", affine=turned, big=True, qform=True)
    nifti(top, "nifti_packed", "u1", affine=straight, packed=True)
    nifti(top, "nifti_2", "<f8", affine=straight, second=True, units=("micron", None))
    nifti(top, "nifti_frames", "<u2", shape=(3, 5, 9, 11), affine=straight)
    nifti(top, "nifti_vector", "<f4", shape=(3, 1, 5, 9, 11), affine=straight)
    nifti(top, "nifti_plain", "<i4", shape=(9, 11), affine=np.eye(4), units=None)
    colors = np.zeros((11, 9, 5), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    values = value_of((5, 9, 11, 3), "u1")
    for k, c in enumerate("RGB"):
        colors[c] = values[..., k].T
    path = top / "nifti_rgb.nii"
    nibabel.save(nibabel.Nifti1Image(colors, straight), path)
    keep("nifti_rgb", 0, path)

    for name, dtype in (("mrc_0", "i1"), ("mrc_1", "i2"), ("mrc_2", "f4"), ("mrc_6", "u2"), ("mrc_12", "f2")):
        mrc(top, name, dtype)
    mrc(top, "mrc_big", "f4", big=True)
    mrc(top, "mrc_stack", "i2", stack=True)

    def turn(f):
        f.header.mapc, f.header.mapr, f.header.maps = 3, 1, 2

    mrc(top, "mrc_turned", "f4", change=turn)

    mrc(top, "mrc_volumes", "f4", shape=(6, 9, 11), change=None)
    raw = bytearray((top / "mrc_volumes.mrc").read_bytes())
    raw[88:92] = np.array(401, "<i4").tobytes()
    raw[36:40] = np.array(2, "<i4").tobytes()
    (top / "mrc_volumes.mrc").write_bytes(raw)
    with mrcfile.open(top / "mrc_volumes.mrc") as f:
        assert f.is_volume_stack() and f.data.shape == (3, 2, 9, 11)
    keep("mrc_volumes", 2, top / "mrc_volumes.mrc")
    raw = bytearray((top / "mrc_0.mrc").read_bytes())
    raw[152:160] = np.array([1146047817, 0], "<i4").tobytes()
    (top / "mrc_imod.mrc").write_bytes(raw)
    keep("mrc_imod", 2, top / "mrc_imod.mrc")
    extended = bytearray((top / "mrc_1.mrc").read_bytes())
    extended[92:96] = np.array(96, "<i4").tobytes()
    (top / "mrc_extended.mrc").write_bytes(bytes(extended[:1024]) + b"x" * 96 + bytes(extended[1024:]))
    with mrcfile.open(top / "mrc_extended.mrc") as f:
        assert np.array_equal(f.data, value_of((5, 9, 11), "i2"))
    keep("mrc_extended", 2, top / "mrc_extended.mrc")
    dicom(top)


def slice_of(array, syntax, **words):
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = CTImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = "1.2.3"
    data.file_meta.TransferSyntaxUID = syntax
    data.SeriesInstanceUID = "1.2.3.4"
    data.Rows, data.Columns = array.shape[-2:]
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 12, 11, 1
    data.RescaleSlope, data.RescaleIntercept, data.PixelSpacing = "0.5", "-7", ["0.7", "0.5"]
    data.ImagePositionPatient, data.ImageOrientationPatient = ["1", "2", "3"], ["1", "0", "0", "0", "1", "0"]
    for key, word in words.items():
        setattr(data, key, word)
    data.PixelData = array.tobytes()
    return data


def dicom(top):
    """What is hostile is made of the first and the last by other lengths."""
    picture, frames = np.arange(42, dtype="i2").reshape(6, 7), np.arange(126, dtype="i2").reshape(3, 6, 7)
    each = []
    for k in range(3):
        place, own = Dataset(), Dataset()
        place.ImagePositionPatient = ["0", "0", str(2 - k)]
        own.PlanePositionSequence = Sequence([place])
        each.append(own)
    for name, data in (("explicit", slice_of(picture, ExplicitVRLittleEndian)), ("implicit", slice_of(picture, ImplicitVRLittleEndian)),
                       ("frames", slice_of(frames, ExplicitVRLittleEndian, NumberOfFrames=3, PerFrameFunctionalGroupsSequence=Sequence(each)))):
        data.save_as(top / f"{name}.dcm", enforce_file_format=True)
        keep(f"dicom_{name}", 3, top / f"{name}.dcm")


if __name__ == "__main__":
    main()
