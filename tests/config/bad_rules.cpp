// SPDX-License-Identifier: BSD-3-Clause
// Keys that can be read and do not fit together, or lack something beside them.
#include "config/bad_jobs.hpp"

namespace tessera::test {

const std::vector<BadJob>& bad_rules() {
  static const std::vector<BadJob> rows = {
      {"StepDpirForAGradient",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: pgd, step: dpir}\n",
       {},
       "photo.yaml:4: solver.step is dpir (pgd takes a gradient step, dpir are penalties of hqs and admm) "
       "write auto"},
      {"DpirWithoutNoise",
       "problem: {truth: photo.png}\nsolver: {name: hqs, sigma: dpir}\n",
       {},
       "photo.yaml:2: solver.sigma is dpir (the noise level that it ends at is not known) write for example "
       "{dpir: 0.02}"},
      {"SigmaUnknown",
       "problem:\n  truth: photo.png\n",
       {},
       "photo.yaml: solver.sigma is missing (the data have no noise, the denoiser needs a level) write for "
       "example 'sigma: 0.02'"},
      {"ThreeOfStrength",
       "problem: {truth: photo.png, noise: {gaussian: 0.01}}\nsolver: {lambda: 1, sigma: 0.1, step: 1}\n",
       {},
       "photo.yaml:2: solver.lambda is written beside step and sigma (sigma^2 = step lambda noise^2: two of "
       "them say the third) remove one"},
      {"LambdaWithoutNoise",
       "problem: {truth: photo.png}\nsolver: {lambda: 1, sigma: 0.1}\n",
       {},
       "photo.yaml:2: solver.lambda acts on nothing (the data have no noise to weigh the prior against) "
       "remove "
       "it"},
      {"BoundsOutOfOrder",
       "problem: {truth: photo.png, noise: {gaussian: 0.01}}\nsolver: {bounds: [1, 0]}\n",
       {},
       "photo.yaml:2: solver.bounds is [1, 0] (it must be none, nonnegative, or the least and the most "
       "value) "
       "write for example [0, 1]"},
      {"FlatFieldOfCounts",
       "problem: {measurements: y.h5, flat: w.tif, noise: {poisson: 0.1}, likelihood: {type: poisson}}\n",
       {},
       "photo.yaml:1: problem.flat stands beside likelihood poisson (divided by it, samples are no counts of "
       "one gain) write likelihood gaussian, whose weights know it"},
      {"NoFile",
       "problem:\n  truth: foto.png\n",
       {},
       "photo.yaml:2: problem.truth is foto.png (there is no file DIR/foto.png) did you mean photo.png?"},
      {"SceneWithoutSize",
       "problem:\n  truth: {scene: {seed: 3}}\n  measurements: y.h5\n",
       {},
       "photo.yaml:2: problem.truth.scene.seed acts on nothing in this job (it acts only with "
       "problem.truth.scene.size) remove it"},
      {"SceneMisspelt",
       "problem:\n  truth: {scenes: {seed: 3}}\n",
       {},
       "photo.yaml:2: unknown key problem.truth.scenes (it would be ignored) did you mean "
       "problem.truth.scene?"},
      {"FileIsAFolder",
       "problem:\n  truth: .\n",
       {},
       "photo.yaml:2: problem.truth is . (a folder, not a file: DIR/) paths are relative to the job file"},
      {"NoFolder",
       "problem: {truth: pictures/photo.png}\n",
       {},
       "photo.yaml:1: problem.truth is pictures/photo.png (there is no file DIR/pictures/photo.png) paths "
       "are "
       "relative to the job file"},
      {"NoWeights",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {weights: ./drunet.safetensors}\n",
       {},
       "photo.yaml:4: denoiser.weights is ./drunet.safetensors (there is no file DIR/drunet.safetensors) did "
       "you mean net.safetensors?"},
      {"NoStart",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {start: adjont}\n",
       {},
       "photo.yaml:4: solver.start is adjont (there is no file DIR/adjont) did you mean adjoint?"},
      {"NoKernelDataset",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {file: "
       "'kernel.h5:/k'}}\n",
       {},
       "photo.yaml:4: problem.operator.kernel.file is kernel.h5:/k (there is no file DIR/kernel.h5) paths "
       "are "
       "relative to the job file"},
      {"NothingToReconstruct",
       "solver: {name: pgd}\n",
       {},
       "photo.yaml: problem.truth is missing, and so is problem.measurements (there is nothing to "
       "reconstruct) "
       "write one of them"},
      {"SimulationOfRealMeasurements",
       "problem:\n  measurements: y.h5\n  simulate: {bits: 8}\nsolver: {sigma: 0.1}\n",
       {},
       "photo.yaml:3: problem.simulate.bits acts on nothing in this job (it acts only without "
       "problem.measurements) remove it"},
      {"AnotherKernelWithoutABlur",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  simulate: {kernel: {gaussian: {sigma: "
       "2}}}\n",
       {},
       "photo.yaml:4: problem.simulate.kernel acts on nothing in this job (it acts only for operators with a "
       "blur) remove it"},
      {"ScaleFromNoData",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  scale: {factor: data}\n",
       {},
       "photo.yaml:4: problem.scale.factor is data (there are no measurements whose values could say it) "
       "write a number or auto"},
      {"DarkOfSimulatedData",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  dark: w.tif\n",
       {},
       "photo.yaml:4: problem.dark acts on nothing in this job (it acts only with problem.measurements) "
       "remove it"},
      {"WeightsOfSimulatedData",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  weights: w.tif\n",
       {},
       "photo.yaml:4: problem.weights acts on nothing in this job (it acts only with problem.measurements) "
       "remove it"},
      {"SizeBesideTruth",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  image: {size: [8, 8]}\n",
       {},
       "photo.yaml:4: problem.image.size acts on nothing in this job (it acts only with "
       "problem.measurements) "
       "remove it"},
      {"UnitWithoutPixel",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  image: {unit: um}\n",
       {},
       "photo.yaml:4: problem.image.unit is written without pixel (there is nothing in that unit) write "
       "pixel "
       "or remove it"},
      {"LambdaWithoutPrior",
       "problem:\n  truth: photo.png\ndenoiser: {network: none}\nsolver:\n  lambda: 0.1\n",
       {},
       "photo.yaml:5: solver.lambda acts on nothing in this job (it acts only for denoiser.network drunet, "
       "gsdrunet, ffdnet, drunet3d, traced, tv, or solver.name red, gspnp, proxpnp) remove it"},
      {"MomentumForHqs",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: hqs, momentum: 3}\n",
       {},
       "photo.yaml:4: solver.momentum acts on nothing in this job (it acts only for solver.name fista) "
       "remove "
       "it"},
      {"ProxIterationsForIdentity",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: hqs, prox_iterations: 3}\n",
       {},
       "photo.yaml:4: solver.prox_iterations acts on nothing in this job (it acts only for operators other "
       "than identity and mask) remove it"},
      {"PhaseBeyondFactor",
       "problem:\n  truth: photo.png\n  operator: {type: downsampling, factor: 2, phase: [0, 2], kernel: "
       "{gaussian: {sigma: 1}}}\n",
       {},
       "photo.yaml:3: problem.operator.phase is 2 on axis 1 (the first sample is one of the first 2) write a "
       "number below factor"},
      {"PatchWithWhole",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {mode: whole, patch: 64}\n",
       {},
       "photo.yaml:4: denoiser.patch acts on nothing in this job (it acts only for denoiser.mode auto, "
       "patch) "
       "remove it"},
      {"WeightsForTv",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {network: tv, weights: "
       "drunet_small_color}\n",
       {},
       "photo.yaml:4: denoiser.weights acts on nothing in this job (it acts only for denoiser.network "
       "drunet, dncnn, unet, gsdrunet, ffdnet, scunet, restormer, drunet3d, dncnn3d, traced) remove it"},
      {"TvKeysForANetwork",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {tv: {weight: 2}}\n",
       {},
       "photo.yaml:4: denoiser.tv.weight acts on nothing in this job (it acts only for denoiser.network tv) "
       "remove it"},
      {"SigmaForABlindNetwork",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {network: dncnn, weights: "
       "random}\nsolver: {sigma: 0.1}\n",
       {},
       "photo.yaml:5: solver.sigma acts on nothing in this job (it acts only for denoiser.network drunet, "
       "gsdrunet, ffdnet, drunet3d, traced, tv) remove it"},
      {"WidthsOfTrainedWeights",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {widths: [16, 32]}\n",
       {},
       "photo.yaml:4: denoiser.widths acts on nothing in this job (it acts only with denoiser.weights "
       "random) "
       "remove it"},
      {"NoShippedWeights",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {network: unet}\n",
       {},
       "photo.yaml:4: denoiser.weights is missing (no weights of unet are shipped) write a path, or random"},
      {"CropWithoutValid",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {crop: false}\n",
       {},
       "photo.yaml:4: output.crop acts on nothing in this job (it acts only for boundary valid) remove it"},
      {"WholeOnManyRanks",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {mode: whole}\ndomain: {grid: [2, "
       "1]}\n",
       {},
       "photo.yaml:4: denoiser.mode is whole (domain.grid asks for more than one rank) write patch"},
      {"NcclOnACpu",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndevice: cpu\ndomain: {transport: nccl}\n",
       {},
       "photo.yaml:5: domain.transport is nccl (it moves device memory, device is cpu) write mpi"},
      {"Tf32OnACpu",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndevice: cpu\ndenoiser: {precision: tf32}\n",
       {},
       "photo.yaml:5: denoiser.precision is tf32 (only GPUs have it, device is cpu) write float32"},
      {"EarlyTf32OnACpu",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndevice: cpu\ndenoiser: {early_precision: "
       "tf32}\n",
       {},
       "photo.yaml:5: denoiser.early_precision is tf32 (only GPUs have it, device is cpu) write float32"},
      {"PreviewBitsOfJpeg",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview: b.jpg, preview_bits: "
       "16}\n",
       {},
       "photo.yaml:4: output.preview_bits is 16 (JPEG has at most 8) write auto, or a preview .tif"},
      {"PreviewBitsOfPng",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview: b.png, preview_bits: "
       "32}\n",
       {},
       "photo.yaml:4: output.preview_bits is 32 (PNG has at most 16) write auto, or a preview .tif"},
      {"PreviewOfAnotherKind",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview: b.h5, preview_bits: 16}\n",
       {},
       "photo.yaml:4: output.preview is b.h5 (it must be the plain name of a .png, .jpg or .tif) write for "
       "example 'preview: result.png'"},
      {"AlsoIsNoFloats",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {also: b.png}\n",
       {},
       "photo.yaml:4: output.also is b.png (it must be the plain name of another .tif, .fits, .h5, "
       ".ome.zarr, "
       ".nii.gz or .mrc) "
       "write for example 'also: result.ome.zarr'"},
      {"AlsoIsTheResult",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {also: reconstruction.h5}\n",
       {},
       "photo.yaml:4: output.also is reconstruction.h5 (it must be the plain name of another .tif, .fits, "
       ".h5, "
       ".ome.zarr, .nii.gz or .mrc) write for example 'also: result.ome.zarr'"},
      {"MaskWithoutPixels",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: mask}\n",
       {},
       "photo.yaml:4: problem.operator.keep is missing (a mask needs a share of pixels or a file) write for "
       "example 'keep: 0.5' or 'file: m.png'"},
      {"MaskTwice",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: mask, file: m.png, keep: "
       "0.5}\n",
       {},
       "photo.yaml:4: problem.operator.keep is written beside file (only one of them can say which pixels "
       "are "
       "measured) remove one"},
      {"KeepOnABlur",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, keep: 0.5, kernel: "
       "{gaussian: {sigma: 1}}}\n",
       {},
       "photo.yaml:4: problem.operator.keep acts on nothing in this job (it acts only for type mask) remove "
       "it"},
      {"BlurWithoutKernel",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur}\n",
       {},
       "photo.yaml:4: problem.operator.kernel is missing (blur needs one) write for example 'kernel: "
       "{gaussian: {sigma: 1.6}}'"},
      {"KernelTwice",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
       "{sigma: 1}, file: k.npy}}\n",
       {},
       "photo.yaml:4: problem.operator.kernel.file is written beside gaussian (a kernel is one or the other) "
       "remove one"},
      {"GaussianWithoutWidths",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
       "{angle: 10}}}\n",
       {},
       "photo.yaml:4: problem.operator.kernel.gaussian.sigma is missing (a Gaussian needs its widths) write "
       "for example 'sigma: 1.6'"},
      {"NormalizeOfAGaussian",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
       "{sigma: 1}, normalize: false}}\n",
       {},
       "photo.yaml:4: problem.operator.kernel.normalize acts on nothing in this job (it acts only with "
       "kernel.file) remove it"},
      {"StackWithoutParts",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack}\n",
       {},
       "photo.yaml:4: problem.operator.parts is missing (a stack needs its operators) write for example "
       "'parts: [{type: identity}]'"},
      {"StackOfStacks",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, parts: [{type: "
       "stack, parts: [{type: identity}]}]}\n",
       {},
       "photo.yaml:4: problem.operator.parts.0.type is stack (parts of a stack cannot be stacks) list its "
       "parts in the outer one"},
      {"AnglesWithoutCount",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, angles: {last: "
       "90}, "
       "parts: [{type: blur, kernel: {gaussian: {sigma: 1}}}]}\n",
       {},
       "photo.yaml:4: problem.operator.angles.count is missing (angles need their number) write for example "
       "'count: 8'"},
      {"AnglesOfAMask",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, angles: {count: "
       "4}, "
       "parts: [{type: mask, keep: 0.5}]}\n",
       {},
       "photo.yaml:4: problem.operator.angles do not fit the parts (they turn one part with a Gaussian "
       "kernel) "
       "write that one part"},
      {"AnglesBesideAnAngle",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, angles: {count: "
       "4}, "
       "parts: [{type: blur, kernel: {gaussian: {sigma: 1, angle: 3}}}]}\n",
       {},
       "photo.yaml:4: problem.operator.parts.0.kernel.gaussian.angle acts on nothing in this job (angles "
       "gives "
       "every angle) remove it"},
      {"StartFromSmallMeasurement",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: downsampling, kernel: "
       "{gaussian: {sigma: 1}}}\nsolver: {start: measurement}\n",
       {},
       "photo.yaml:5: solver.start is measurement (this operator's measurement is no image of the unknown's "
       "size) write adjoint"},
  };
  return rows;
}

}  // namespace tessera::test
