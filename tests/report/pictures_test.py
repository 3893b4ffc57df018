# SPDX-License-Identifier: BSD-3-Clause
"""The pictures on the page of jobs/report.py: result, truth, error, measurement, and why one is missing.

usage: pictures_test.py SOURCE_DIR
"""

import json
import struct
import unittest
import unittest.mock
import zlib

from harness import WORK
from pages import Pages  # first: it skips where a package is missing

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import tifffile  # noqa: E402
from made_runs import make_run  # noqa: E402
from PIL import Image  # noqa: E402
from reporting.image_files import Unreadable, on_page, open_array, open_image, sections  # noqa: E402
from reporting.pictures import as_bytes, colored, NOTHING  # noqa: E402


class Pictures(Pages):
    def test_psnr_is_compared_in_the_region_that_was_scored(self):
        # Right inside, wrong outside of the scored region.
        folder = make_run(WORK / "a", truth=self.truth)
        image = np.full((3, 32, 48), 100, np.float32)
        image[:, :4] = image[:, :, 40:] = 0
        with h5py.File(folder / "reconstruction.h5", "a") as file:
            file["image"][...] = image
        figures = json.loads((folder / "summary.json").read_text())
        figures["psnr"] = 20 * np.log10(255 / 10)
        for region, told in (([[4, 32], [0, 40]], False), ([[0, 32], [0, 48]], True)):
            figures["scored_region"] = region
            (folder / "summary.json").write_text(json.dumps(figures))
            data, _, _ = self.page("a")
            missing = " ".join(data["pictures"]["a"]["missing"])
            self.assertEqual("The PSNR of these files" in missing, told, missing)

    def test_pictures_before_after_error(self):
        folder = make_run(WORK / "a", truth=self.truth)
        Image.fromarray(np.full((16, 24, 3), 90, np.uint8)).save(folder / "measurement.png")
        data, _, _ = self.page("a")
        shown = data["pictures"]["a"]
        self.assertEqual([f["title"] for f in shown["figures"]], ["before", "after", "truth", "error"])
        self.assertEqual((shown["figures"][0]["width"], shown["figures"][1]["width"]), (24, 48))
        self.assertEqual(shown["missing"], [], "10 of 255 are 28.13 dB, as the run says")
        self.assertEqual(
            shown["figures"][3]["ramp"]["ends"][1], "0.05 and more", "the next round number above 10 / 255"
        )
        data, _, _ = self.page("a", "--side", "20")
        self.assertEqual(
            [(f["height"], f["width"]) for f in data["pictures"]["a"]["figures"]],
            [(8, 12), (11, 16), (11, 16), (11, 16)],
        )
        self.assertIn("1/3 of its size", data["pictures"]["a"]["figures"][1]["caption"])

    def test_truths_of_every_kind_are_read_as_the_program_does(self):
        color = np.arange(6 * 5 * 3, dtype=np.uint8).reshape(6, 5, 3)
        planar = np.moveaxis(color, -1, 0).astype(np.float32)
        Image.fromarray(color).save(WORK / "c.png")
        Image.fromarray(np.dstack([color, np.full((6, 5), 9, np.uint8)])).save(WORK / "alpha.png")
        Image.fromarray(color[..., 0]).save(WORK / "gray.png")
        Image.fromarray(color[..., 0].astype(np.uint16) * 257 + 5).save(WORK / "gray16.png")
        deep = b"".join(b"\0" + row.astype(">u2").tobytes() for row in color.astype(np.uint16) * 257)
        chunk = (
            lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )
        (WORK / "color16.png").write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 6, 16, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(deep))
            + chunk(b"IEND", b"")
        )
        turned = Image.fromarray(color)
        exif = turned.getexif()
        exif[0x0112] = 6  # stored on its side
        turned.save(WORK / "turned.png", exif=exif)
        tifffile.imwrite(WORK / "c.tif", color.astype(np.uint16) * 257)
        np.save(WORK / "c.npy", planar)
        with h5py.File(WORK / "c.h5", "w") as file:
            file["image"], file["deep"] = planar, planar[:, None]
        cases = {
            "c.png": planar,
            "alpha.png": planar,
            "gray.png": planar[:1],
            "gray16.png": planar[:1] * 257 + 5,
            "color16.png": planar * 257,
            "c.tif": planar * 257,
            "c.npy": planar,
            "c.h5": planar,
            "c.h5:/deep": planar,
            "turned.png": np.rot90(planar, -1, (1, 2)),
        }
        for name, wanted in cases.items():
            image = open_image(WORK / name)
            self.assertEqual(image.shape, wanted.shape, name)
            np.testing.assert_array_equal(image.rows(0, image.shape[1]), wanted, name)
            np.testing.assert_array_equal(image.rows(2, 4), wanted[:, 2:4], name)
        volume = np.arange(4 * 6 * 5, dtype=np.float32).reshape(1, 4, 6, 5)
        with h5py.File(WORK / "v.h5", "w") as file:
            file["image"] = volume
        slices = open_image(WORK / "v.h5")  # rows x columns, rows x depth, depth x columns, in the middle
        self.assertEqual((slices.shape, slices.volume), ((1, 12, 11), (4, 6, 5)))
        page = slices.rows(0, 12)
        np.testing.assert_array_equal(page[:, :6, :5], volume[:, 2])
        np.testing.assert_array_equal(page[:, :6, 7:], volume[:, :, :, 2].transpose(0, 2, 1))
        np.testing.assert_array_equal(page[:, 8:, :5], volume[:, :, 3])
        between = np.isnan(page[0])
        self.assertEqual((between.sum(), bool(between[6:8].all()), bool(between[:, 5:7].all())), (12 * 11 - 30 - 24 - 20, True, True))
        np.testing.assert_array_equal(as_bytes(page)[between], NOTHING)
        np.testing.assert_array_equal(colored(page[0], 1.0)[between], NOTHING)
        self.assertEqual(sections((4, 6, 5)), [("slice 2", 0, 0), ("column 2", 7 / 11, 0), ("row 3", 0, 8 / 12)])
        before = on_page(open_array(volume[:, 2, 1:, :]), (4, 6, 5))  # a measurement without its first row
        np.testing.assert_array_equal(before.rows(0, 12)[:, :5, :5], volume[:, 2, 1:])
        self.assertIsNone(on_page(open_array(np.zeros((1, 9, 9))), (4, 6, 5)), "no slice of this volume")
        (WORK / "no.png").write_bytes(b"nothing")
        for name, words in (
            ("no.png", "cannot be read"),
            ("gone.png", "not there"),
            ("c.h5:/x", "cannot be read"),
        ):
            with self.assertRaisesRegex(Unreadable, words):
                open_image(WORK / name)

    def test_large_pictures_are_left_out_unless_asked_for(self):
        make_run(WORK / "a", truth=self.truth)
        make_run(WORK / "b", truth=self.truth)
        with unittest.mock.patch("reporting.pictures.Album.AFFORDED", 32 * 48 * 3):
            data, _, _ = self.page("a", "b")
            everything, _, _ = self.page("a", "b", "--pictures", "all")
        self.assertEqual([len(data["pictures"][name]["figures"]) for name in "ab"], [3, 0])
        self.assertIn("--pictures all shows it", data["pictures"]["b"]["missing"][0])
        self.assertEqual([len(everything["pictures"][name]["figures"]) for name in "ab"], [3, 3])
        self.assertEqual(len(everything["sources"]), 3, "equal pictures are stored once")
        none, _, _ = self.page("a", "--pictures", "none")
        self.assertEqual((none["pictures"]["a"]["figures"], none["sources"]), ([], []))

    def test_pictures_say_what_is_missing(self):
        make_run(WORK / "gone", truth=WORK / "removed.png")
        Image.fromarray(np.full((32, 48, 3), 190, np.uint8)).save(WORK / "other.png")
        make_run(WORK / "changed", truth=WORK / "other.png")
        Image.fromarray(np.full((9, 9, 3), 190, np.uint8)).save(WORK / "size.png")
        make_run(WORK / "size", truth=WORK / "size.png")
        make_run(WORK / "none", psnr=False)
        make_run(WORK / "empty", pictures=False)
        data, _, _ = self.page("gone", "changed", "size", "none", "empty")
        said = {run: " ".join(p["missing"]) for run, p in data["pictures"].items()}
        self.assertIn("removed.png is not there", said["gone"])
        self.assertIn("The PSNR of these files is 9.0", said["changed"])
        self.assertIn("the truth is 9 x 9, the result 32 x 48", said["size"])
        self.assertNotIn("No error picture", said["none"])
        self.assertIn("There is no result", said["empty"])
        self.assertIn("No picture of the measurement", said["empty"])

    def test_a_scene_of_another_size_is_not_drawn(self):
        from reporting.pictures import Scenes, Unreadable

        scenes = Scenes("/bin/false")
        with self.assertRaisesRegex(Unreadable, "a scene of 99999 x 99999, the result 32 x 48"):
            scenes.image({"problem.truth.scene.size": [99999, 99999]}, (3, 32, 48))
        scenes.folder.cleanup()


if __name__ == "__main__":
    unittest.main(verbosity=2)
