// SPDX-License-Identifier: BSD-3-Clause
#include "vips/vips_sink.hpp"

#include "spooled_sink.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "vips/vips_support.hpp"

namespace tessera::io {
namespace {

class VipsSink final : public SpooledSink {
 public:
  enum class Codec { png, jpeg };
  VipsSink(const std::string& path, const ImageRecord& about, Codec codec)
      : SpooledSink(path, about), codec_(codec) {
    start_vips();
  }

 private:
  void check(int code) const {
    if (code) fail(vips_problem());
  }

  void encode(const std::string& temporary) override {
    const bool color = record().space.channels == 3, deep = record().bits == 16;
    const VipsInterpretation meaning = deep ? (color ? VIPS_INTERPRETATION_RGB16 : VIPS_INTERPRETATION_GREY16)
                                            : (color ? VIPS_INTERPRETATION_sRGB : VIPS_INTERPRETATION_B_W);
    const Box& box = record().space.box;
    VipsImage* made = nullptr;
    int code = vips_rawload(raw_path().c_str(), &made, static_cast<int>(box.extent(2)),
                            static_cast<int>(box.extent(1)), static_cast<int>(record().space.channels),
                            "format", deep ? VIPS_FORMAT_USHORT : VIPS_FORMAT_UCHAR, "interpretation",
                            meaning, "access", VIPS_ACCESS_SEQUENTIAL, nullptr);
    const VipsPointer rows(made);
    check(code);
    made = nullptr;
    code = vips_copy(rows.get(), &made, nullptr);  // metadata may be set on a copy only
    const VipsPointer image(made);
    check(code);
    if (const auto& profile = record().metadata.profile; !profile.empty())
      vips_image_set_blob_copy(image.get(), VIPS_META_ICC_NAME, profile.data(), profile.size());
    // A large picture takes minutes to encode.
    vips_image_set_progress(image.get(), TRUE);
    g_signal_connect(image.get(), "eval", G_CALLBACK(+[](VipsImage*, VipsProgress*, void*) { beat(); }),
                     nullptr);
    if (codec_ == Codec::png)
      check(vips_pngsave(image.get(), temporary.c_str(), "bitdepth", record().bits, nullptr));
    else
      check(vips_jpegsave(image.get(), temporary.c_str(), "Q", 95, nullptr));
  }

  Codec codec_;
};

}  // namespace

std::unique_ptr<ImageSink> create_png(const std::string& path, const ImageRecord& record,
                                      const Communicator&) {
  return std::make_unique<VipsSink>(path, record, VipsSink::Codec::png);
}

std::unique_ptr<ImageSink> create_jpeg(const std::string& path, const ImageRecord& record,
                                       const Communicator&) {
  return std::make_unique<VipsSink>(path, record, VipsSink::Codec::jpeg);
}

}  // namespace tessera::io
