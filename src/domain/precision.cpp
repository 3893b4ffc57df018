// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/precision.hpp"

#include <ATen/Context.h>

namespace tessera {
namespace {

void set(at::Float32Precision precision) {
  for (const auto op : {at::Float32Op::CONV, at::Float32Op::MATMUL})
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, op, precision);
}

}  // namespace

void use_ieee_products() { set(at::Float32Precision::IEEE); }

Tf32Scope::Tf32Scope(bool on) : on_(on) {
  if (on_) set(at::Float32Precision::TF32);
}
Tf32Scope::~Tf32Scope() {
  if (on_) use_ieee_products();
}

}  // namespace tessera
