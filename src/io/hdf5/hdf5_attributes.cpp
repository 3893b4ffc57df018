// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>

#include "hdf5/hdf5_impl.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

// Variable length, as h5py writes and reads `str`.
H5Handle text_type(const std::string& where) {
  H5Handle type(check_h5(H5Tcopy(H5T_C_S1), "H5Tcopy", where), H5Tclose);
  check_h5(H5Tset_size(type.get(), H5T_VARIABLE), "H5Tset_size", where);
  check_h5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset", where);
  return type;
}

// One value, or a list of `count`.
void put(const Hdf5File& file, const std::string& object, const std::string& key, hid_t type,
         const void* value, const std::string& where, std::optional<hsize_t> count = {}) {
  if (!file.has(object)) {
    const H5Handle link(check_h5(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate", where), H5Pclose);
    check_h5(H5Pset_create_intermediate_group(link.get(), 1), "H5Pset_create_intermediate_group", where);
    const H5Handle made(check_h5(H5Gcreate2(file.id(), object.c_str(), link.get(), H5P_DEFAULT, H5P_DEFAULT),
                                 "H5Gcreate", where),
                        H5Gclose);
  }
  const H5Handle target(check_h5(H5Oopen(file.id(), object.c_str(), H5P_DEFAULT), "H5Oopen", where),
                        H5Oclose);
  if (H5Aexists(target.get(), key.c_str()) > 0)
    check_h5(H5Adelete(target.get(), key.c_str()), "H5Adelete", where);
  const H5Handle space(
      check_h5(count ? H5Screate_simple(1, &*count, nullptr) : H5Screate(H5S_SCALAR), "H5Screate", where),
      H5Sclose);
  const H5Handle attribute(
      check_h5(H5Acreate2(target.get(), key.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
               "H5Acreate", where),
      H5Aclose);
  check_h5(H5Awrite(attribute.get(), type, value), "H5Awrite", where);
}

// The attribute where it exists; an empty handle otherwise.
H5Handle find(const Hdf5File& file, const std::string& object, const std::string& key) {
  if (!file.has(object) || H5Aexists_by_name(file.id(), object.c_str(), key.c_str(), H5P_DEFAULT) <= 0)
    return {};
  return {H5Aopen_by_name(file.id(), object.c_str(), key.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose};
}

}  // namespace

void Hdf5File::set_attribute(const std::string& object, const std::string& key, const std::string& value) {
  const std::string where = impl_->path + ":" + object + "@" + key;
  impl_->comm.together([&] {
    if (impl_->comm.rank() != 0) return;
    const char* text = value.c_str();
    put(*this, object, key, text_type(where).get(), &text, where);
  });
}

void Hdf5File::set_attribute(const std::string& object, const std::string& key,
                             const std::vector<std::string>& values) {
  const std::string where = impl_->path + ":" + object + "@" + key;
  impl_->comm.together([&] {
    if (impl_->comm.rank() != 0) return;
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    put(*this, object, key, text_type(where).get(), texts.data(), where, texts.size());
  });
}

void Hdf5File::set_attribute(const std::string& object, const std::string& key, double value) {
  const std::string where = impl_->path + ":" + object + "@" + key;
  impl_->comm.together([&] {
    if (impl_->comm.rank() == 0) put(*this, object, key, H5T_NATIVE_DOUBLE, &value, where);
  });
}

std::vector<std::string> Hdf5File::attributes(const std::string& object) const {
  std::vector<std::string> names;
  if (!has(object)) return names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  H5Aiterate_by_name(id(), object.c_str(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names, H5P_DEFAULT);
  return names;
}

std::vector<std::string> Hdf5File::text_attributes(const std::string& object, const std::string& key) const {
  const std::string where = impl_->path + ":" + object + "@" + key;
  const H5Handle attribute = find(*this, object, key);
  if (attribute.get() < 0) return {};
  const H5Handle type(H5Aget_type(attribute.get()), H5Tclose), space(H5Aget_space(attribute.get()), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (H5Tget_class(type.get()) != H5T_STRING || count <= 0) return {};
  const auto good = [&](herr_t code) {
    TESSERA_VALIDATE(code >= 0, where, " cannot be read (HDF5 refuses it) is the file complete?");
  };
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::string> out;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> texts(n, nullptr);
    good(H5Aread(attribute.get(), type.get(), texts.data()));
    for (char* text : texts) {
      out.emplace_back(text ? text : "");
      H5free_memory(text);
    }
    return out;
  }
  const std::size_t length = H5Tget_size(type.get());
  std::string all(n * length, '\0');
  good(H5Aread(attribute.get(), type.get(), all.data()));
  for (std::size_t k = 0; k < n; ++k) {
    const char* text = all.data() + k * length;
    out.emplace_back(text, ::strnlen(text, length));
  }
  return out;
}

std::optional<std::string> Hdf5File::text_attribute(const std::string& object, const std::string& key) const {
  const std::vector<std::string> texts = text_attributes(object, key);
  if (texts.size() != 1) return std::nullopt;
  return texts[0];
}

std::optional<double> Hdf5File::number_attribute(const std::string& object, const std::string& key) const {
  const H5Handle attribute = find(*this, object, key);
  if (attribute.get() < 0) return std::nullopt;
  const H5Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const H5Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.get()) != 1) return std::nullopt;
  const H5T_class_t kind = H5Tget_class(type.get());
  double value = 0;
  if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0)
    return std::nullopt;
  return value;
}

}  // namespace tessera
