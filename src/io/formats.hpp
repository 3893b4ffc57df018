// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "array_axes.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::io {

// The rows, each in its format's own file.
ImageFormat png_format();
ImageFormat jpeg_format();
ImageFormat tiff_format();
ImageFormat fits_format();
ImageFormat packed_fits_format();  // it is read
ImageFormat npy_format();
ImageFormat hdf5_format();
std::vector<ImageFormat> hdf5_kinds();  // netCDF, MATLAB, Imaris: they are read
ImageFormat viewer_format();            // BigDataViewer
ImageFormat dicom_format();
ImageFormat dicom_series_format();  // a folder
ImageFormat zarr_format();
ImageFormat nifti_format();
ImageFormat mrc_format();
ImageFormat txm_format();  // it is read

constexpr std::int64_t kLongestSide = 10'000'000;  // pixels of a picture that is written

/// A .npy array, whose axes are what `axes_of` makes of its shape. Not collective.
using AxesOf = std::function<ArrayAxes(const std::vector<std::int64_t>& shape)>;
std::unique_ptr<ImageSource> npy_source(const std::string& path, const AxesOf& axes_of);

/// The largest value of a type that has one for images: of uint8 255, of uint16 65535; else 1.
double full_scale(const std::string& type);

}  // namespace tessera::io
