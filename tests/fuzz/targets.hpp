// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/core/error.hpp"

namespace tessera::fuzz {

/// What hostile bytes are given to. Each takes one input: it returns, or refuses it by InputError, which the
/// target catches. Anything else that is thrown, a failed property (abort) or what a sanitizer sees is a bug.
using Target = void (*)(const std::uint8_t* bytes, std::size_t count);

void safetensors(const std::uint8_t* bytes, std::size_t count);  // read_safetensors
void network(const std::uint8_t* bytes, std::size_t count);      // load_network
void npy(const std::uint8_t* bytes, std::size_t count);          // read_npy, and as an image
void seal(const std::uint8_t* bytes, std::size_t count);     // check_seal; one that fits is put there, or not
void job(const std::uint8_t* bytes, std::size_t count);      // parse_job(write_job(j)) == j
void picture(const std::uint8_t* bytes, std::size_t count);  // open_image, pieces against whole
void zarr(const std::uint8_t* bytes, std::size_t count);     // a store, all of its files in one
void grid(const std::uint8_t* bytes, std::size_t count);     // NIfTI, MRC, DICOM, BigDataViewer, TXM
void measurements(const std::uint8_t* bytes, std::size_t count);  // files that HDF5 wrote, of any content
void checkpoint(const std::uint8_t* bytes, std::size_t count);    // flipped bits; hostile headers with a seal
void trace(const std::uint8_t* bytes, std::size_t count);         // what a run goes on with
void texts(const std::uint8_t* bytes, std::size_t count);         // training jobs, machines, tuned choices
void crop(const std::uint8_t* bytes, std::size_t count);          // photograph_crop
void plan(const std::uint8_t* bytes, std::size_t count);          // ExchangePlan against walking
void diagnosis(const std::uint8_t* bytes, std::size_t count);     // diagnose

struct Named {
  const char* name;
  Target run;
};
constexpr Named kTargets[] = {{"safetensors", safetensors},
                              {"network", network},
                              {"npy", npy},
                              {"seal", seal},
                              {"job", job},
                              {"texts", texts},
                              {"picture", picture},
                              {"zarr", zarr},
                              {"grid", grid},
                              {"measurements", measurements},
                              {"checkpoint", checkpoint},
                              {"trace", trace},
                              {"crop", crop},
                              {"plan", plan},
                              {"diagnosis", diagnosis}};

/// The bytes as a file of this suffix; the same path at every call.
std::string as_file(const std::uint8_t* bytes, std::size_t count, const std::string& suffix);

/// Aborts with the words where a property does not hold.
void require(bool holds, const char* words);

/// Runs what may refuse its input by InputError, with words.
template <class Work>
void refused_or_fine(Work work) {
  try {
    work();
  } catch (const InputError& e) {
    require(std::string(e.what()).size() > 10, "an error without words");
  }
}

/// Numbers from the input, one after the other; 0 where it has ended.
class Numbers {
 public:
  Numbers(const std::uint8_t* bytes, std::size_t count) : at_(bytes), end_(bytes + count) {}
  int below(int n) { return at_ == end_ ? 0 : *at_++ % n; }
  bool empty() const { return at_ == end_; }

 private:
  const std::uint8_t *at_, *end_;
};

}  // namespace tessera::fuzz
