// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera {

/// From here on float32 products are IEEE float32 on every device; torch would take TF32 for convolutions on
/// a GPU, which rounds them to 10 bits. Called wherever operators and networks are made.
void use_ieee_products();

/// TF32 for products on a GPU while it lives, where it is asked for: a network's passes, never the physics.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool on);
  ~Tf32Scope();
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool on_;
};

}  // namespace tessera
