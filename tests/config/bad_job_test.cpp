// SPDX-License-Identifier: BSD-3-Clause
// Every kind of bad job file and the exact message that it gets. DIR stands for the job file's folder.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/job_folder.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

struct BadInput {
  const char* name;
  const char* text;
  std::vector<std::string> overrides;
  const char* message;
};

const std::vector<BadInput> bad_inputs = {
    {"NotYaml",
     "problem: {truth: photo.png\n",
     {},
     "photo.yaml:2: the file is not YAML (end of map flow not found) check indentation, colons and brackets"},
    {"Empty",
     "# nothing\n",
     {},
     "photo.yaml: the file holds no keys (a job is a map of keys) start from an example of docs/job_file.md"},
    {"AList",
     "- problem\n- solver\n",
     {},
     "photo.yaml: the file holds no keys (a job is a map of keys) start from an example of docs/job_file.md"},
    {"TwoDocuments",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n---\nproblem:\n  truth: photo.png\n  noise: "
     "{gaussian: 0.01}\n",
     {},
     "photo.yaml: the file holds 2 documents (a job is one) remove what follows '---'"},
    {"KeyTwice",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: 3}\nsolver: {name: "
     "red}\n",
     {},
     "photo.yaml:5: key solver is written twice (first at photo.yaml:4) remove one of them"},
    {"KeyTwiceInside",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver:\n  iterations: 3\n  name: pgd\n  "
     "iterations: 4\n",
     {},
     "photo.yaml:7: key iterations is written twice (first at photo.yaml:5) remove one of them"},
    {"NodeThatHoldsItself",
     "problem: &p\n  truth: photo.png\n  operator: *p\n",
     {},
     "photo.yaml:2: the values are nested too deep, or too many (no job needs more than 20 levels) look for "
     "an alias '*' that stands for itself"},
    {"KeyIsAList",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n[a, b]: c\n",
     {},
     "photo.yaml:4: a key is not a plain word (keys are names) write 'key: value'"},
    {"UnknownKey",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver:\n  iteration: 3\n",
     {},
     "photo.yaml:5: unknown key solver.iteration (it would be ignored) did you mean solver.iterations?"},
    {"UnknownSection",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolvers: {iterations: 3}\n",
     {},
     "photo.yaml:4: unknown key solvers (it would be ignored) did you mean solver?"},
    {"UnknownKeyOfAnotherSection",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\niterations: 3\n",
     {},
     "photo.yaml:4: unknown key iterations (it would be ignored) did you mean solver.iterations?"},
    {"UnknownKeyFarFromAll",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndomain: {xyzzy: 3}\n",
     {},
     "photo.yaml:4: unknown key domain.xyzzy (it would be ignored) known here: grid, transport, "
     "share_gpu"},
    {"UnknownKeyOfAPart",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, parts: [{type: "
     "identity}, {type: blur, kernels: 3}]}\n",
     {},
     "photo.yaml:4: unknown key problem.operator.parts.1.kernels (it would be ignored) did you mean "
     "problem.operator.parts.1.kernel?"},
    {"SchemaTooNew",
     "schema: 2\nfuture: true\n",
     {},
     "photo.yaml:1: schema is 2 (this tessera reads schema 1) use a newer tessera"},
    {"SchemaNoNumber",
     "schema: one\nproblem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {},
     "photo.yaml:1: schema is one (it must be a whole number >= 1) write for example 'schema: 1'"},
    {"SectionWithoutKeys",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver:\n",
     {},
     "photo.yaml:4: solver has no value (nothing stands after the colon) write one or remove the key"},
    {"SectionIsAValue",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: pgd\n",
     {},
     "photo.yaml:4: solver is pgd (it must be a map of keys) write its keys below it"},
    {"ValueMissing",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver:\n  iterations:\n",
     {},
     "photo.yaml:5: solver.iterations has no value (nothing stands after the colon) write one or remove the "
     "key"},
    {"NotANumber",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: many}\n",
     {},
     "photo.yaml:4: solver.iterations is many (it must be a whole number >= 1, <= 1000000) write for example "
     "'iterations: 20'"},
    {"NotWhole",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: 2.5}\n",
     {},
     "photo.yaml:4: solver.iterations is 2.5 (it must be a whole number >= 1, <= 1000000) write for example "
     "'iterations: 20'"},
    {"BelowItsLimit",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: 0}\n",
     {},
     "photo.yaml:4: solver.iterations is 0 (it must be a whole number >= 1, <= 1000000) write for example "
     "'iterations: 20'"},
    {"AboveItsLimit",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {relaxation: 2.5}\n",
     {},
     "photo.yaml:4: solver.relaxation is 2.5 (it must be a number > 0, <= 1) write for example 'relaxation: "
     "1'"},
    {"TooLongForAnInteger",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"problem.seed=99999999999999999999"},
     "--set problem.seed=99999999999999999999: problem.seed is 99999999999999999999 (it must be a whole "
     "number >= 0) write for example 'seed: 0'"},
    {"NotFinite",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nwatchdog: .inf\n",
     {},
     "photo.yaml:4: watchdog is .inf (it must be a number >= 0) write for example 'watchdog: 300'"},
    {"NotANumberByName",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {stop: {residual: .nan}}\n",
     {},
     "photo.yaml:4: solver.stop.residual is .nan (it must be a number >= 0) write for example 'residual: 0'"},
    {"NeitherTrueNorFalse",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, boundary: valid, "
     "kernel: {gaussian: {sigma: 1}}}\noutput: {crop: yes}\n",
     {},
     "photo.yaml:5: output.crop is yes (it must be true or false) write for example 'crop: true'"},
    {"UnknownChoice",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: pdg}\n",
     {},
     "photo.yaml:4: solver.name is pdg (it must be one of pgd, fista, hqs, admm, red) did you mean pgd?"},
    {"WrongListLength",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndomain: {grid: [2, 2, 2]}\n",
     {},
     "photo.yaml:4: domain.grid is [2, 2, 2] (it must be 2 whole numbers >= 1 or auto) write for example "
     "'grid: [2, 2]'"},
    {"ListForANumber",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: [3, 4]}\n",
     {},
     "photo.yaml:4: solver.iterations is [3, 4] (it must be a whole number >= 1, <= 1000000) write for "
     "example 'iterations: 20'"},
    {"MapForANumber",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nwatchdog: {limit: 3}\n",
     {},
     "photo.yaml:4: watchdog is {limit: 3} (it must be a number >= 0) write for example 'watchdog: 300'"},
    {"UnitUnknown",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nmemory: 8 gigs\n",
     {},
     "photo.yaml:4: memory is 8 gigs (it must be auto, a share > 0, <= 1 of the memory, or an amount of at "
     "least 1 MiB with its unit) write for example 0.5 or 8 GiB"},
    {"MemoryWithoutUnit",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nmemory: 8\n",
     {},
     "photo.yaml:4: memory is 8 (it must be auto, a share > 0, <= 1 of the memory, or an amount of at least "
     "1 MiB with its unit) write for example 0.5 or 8 GiB"},
    {"ScheduleUnknownForm",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {sigma: {exp: [1, 2]}}\n",
     {},
     "photo.yaml:4: solver.sigma is {exp: [1, 2]} (it must be a number >= 0, a list of them, {log: [first, "
     "last]}, {linear: [first, last]}, dpir, {dpir: last} or auto) write for example {log: [0.2, 0.01]}"},
    {"ScheduleLogToZero",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {sigma: {log: [0.1, 0]}}\n",
     {},
     "photo.yaml:4: solver.sigma is {log: [0.1, 0]} (it must be two numbers > 0 for log) use linear to end "
     "at 0"},
    {"ScheduleNegative",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {sigma: [0.1, -0.1]}\n",
     {},
     "photo.yaml:4: solver.sigma is [0.1, -0.1] (it must be a number >= 0, a list of them, {log: [first, "
     "last]}, {linear: [first, last]}, dpir, {dpir: last} or auto) write for example {log: [0.2, 0.01]}"},
    {"ScheduleLongerThanTheRun",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: 2, sigma: [0.3, 0.2, "
     "0.1]}\n",
     {},
     "photo.yaml:4: solver.sigma has 3 values (solver.iterations is 2, the others would be ignored) shorten "
     "the list"},
    {"StepIsZero",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {step: 0}\n",
     {},
     "photo.yaml:4: solver.step is 0 (it must be a number > 0, a list of them, {log: [first, last]}, "
     "{linear: [first, last]}, dpir, {dpir: last} or auto) write for example {log: [0.2, 0.01]}"},
    {"StepDpirForAGradient",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {step: dpir}\n",
     {},
     "photo.yaml:4: solver.step is dpir (pgd takes a gradient step, dpir are penalties of hqs and admm) "
     "write auto"},
    {"DpirWithoutNoise",
     "problem: {truth: photo.png}\nsolver: {name: hqs, sigma: dpir}\n",
     {},
     "photo.yaml:2: solver.sigma is dpir (the noise level that it ends at is not known) write for example "
     "{dpir: 0.02}"},
    {"SigmaUnknown",
     "problem:\n  measurements: y.h5\n",
     {},
     "photo.yaml: solver.sigma is missing (the noise level is not known, the denoiser needs one) write for "
     "example 'sigma: 0.02'"},
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
     "photo.yaml:1: problem.truth is pictures/photo.png (there is no file DIR/pictures/photo.png) paths are "
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
     "photo.yaml:4: problem.operator.kernel.file is kernel.h5:/k (there is no file DIR/kernel.h5) paths are "
     "relative to the job file"},
    {"NothingToReconstruct",
     "solver: {name: pgd}\n",
     {},
     "photo.yaml: problem.truth is missing, and so is problem.measurements (there is nothing to reconstruct) "
     "write one of them"},
    {"NoiseOnRealMeasurements",
     "problem:\n  measurements: y.h5\n  noise: {gaussian: 0.1}\nsolver: {sigma: 0.1}\n",
     {},
     "photo.yaml:3: problem.noise.gaussian acts on nothing in this job (it acts only without "
     "problem.measurements) remove it"},
    {"WeightsOfSimulatedData",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  weights: w.tif\n",
     {},
     "photo.yaml:4: problem.weights acts on nothing in this job (it acts only with problem.measurements) "
     "remove it"},
    {"SizeBesideTruth",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  image: {size: [8, 8]}\n",
     {},
     "photo.yaml:4: problem.image.size acts on nothing in this job (it acts only with problem.measurements) "
     "remove it"},
    {"UnitWithoutPixel",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  image: {unit: um}\n",
     {},
     "photo.yaml:4: problem.image.unit is written without pixel (there is nothing in that unit) write pixel "
     "or remove it"},
    {"LambdaForPgd",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver:\n  lambda: 0.1\n",
     {},
     "photo.yaml:5: solver.lambda acts on nothing in this job (it acts only for solver.name red) remove it"},
    {"MomentumForHqs",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: hqs, momentum: 3}\n",
     {},
     "photo.yaml:4: solver.momentum acts on nothing in this job (it acts only for solver.name fista) remove "
     "it"},
    {"ProxIterationsForIdentity",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: hqs, prox_iterations: 3}\n",
     {},
     "photo.yaml:4: solver.prox_iterations acts on nothing in this job (it acts only for operators other "
     "than identity and mask) remove it"},
    {"PatchWithWhole",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {mode: whole, patch: 64}\n",
     {},
     "photo.yaml:4: denoiser.patch acts on nothing in this job (it acts only for denoiser.mode auto, patch) "
     "remove it"},
    {"WeightsForTv",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {network: tv, weights: "
     "drunet_small_color}\n",
     {},
     "photo.yaml:4: denoiser.weights acts on nothing in this job (it acts only for denoiser.network drunet, "
     "dncnn, unet) remove it"},
    {"TvKeysForANetwork",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {tv: {weight: 2}}\n",
     {},
     "photo.yaml:4: denoiser.tv.weight acts on nothing in this job (it acts only for denoiser.network tv) "
     "remove it"},
    {"SigmaForABlindNetwork",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {network: dncnn, weights: "
     "random}\nsolver: {sigma: 0.1}\n",
     {},
     "photo.yaml:5: solver.sigma acts on nothing in this job (it acts only for denoiser.network drunet, tv) "
     "remove it"},
    {"WidthsOfTrainedWeights",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndenoiser: {widths: [16, 32]}\n",
     {},
     "photo.yaml:4: denoiser.widths acts on nothing in this job (it acts only with denoiser.weights random) "
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
    {"PreviewInAFolder",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview: a/b.png}\n",
     {},
     "photo.yaml:4: output.preview is a/b.png (it must be the plain name of a .png, .jpg or .tif) write for "
     "example 'preview: result.png'"},
    {"PreviewBitsOdd",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview_bits: 12}\n",
     {},
     "photo.yaml:4: output.preview_bits is 12 (it must be 8 or 16) write for example 'preview_bits: 16'"},
    {"PreviewBitsOfJpeg",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview: b.jpg, preview_bits: 16}\n",
     {},
     "photo.yaml:4: output.preview_bits is 16 (JPEG has 8) write 8, or a preview .png or .tif"},
    {"OperatorIsAWord",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: blur\n",
     {},
     "photo.yaml:4: problem.operator is blur (it must be a map of keys) write its keys below it"},
    {"MaskWithoutPixels",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: mask}\n",
     {},
     "photo.yaml:4: problem.operator.keep is missing (a mask needs a share of pixels or a file) write for "
     "example 'keep: 0.5' or 'file: m.png'"},
    {"MaskTwice",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: mask, file: m.png, keep: "
     "0.5}\n",
     {},
     "photo.yaml:4: problem.operator.keep is written beside file (only one of them can say which pixels are "
     "measured) remove one"},
    {"MaskKeepsNothing",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: mask, keep: 0}\n",
     {},
     "photo.yaml:4: problem.operator.keep is 0 (it must be a number > 0, <= 1) write for example 'keep: "
     "0.5'"},
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
    {"SigmaMixed",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
     "{sigma: [1 %, 2]}}}\n",
     {},
     "photo.yaml:4: problem.operator.kernel.gaussian.sigma is [1 %, 2] (it must be one or two widths > 0, "
     "both in pixels or both in percent of the image width) write for example [1.6, 1.6] or [\"1 %\", \"0.5 "
     "%\"]"},
    {"SigmaZero",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
     "{sigma: 0}}}\n",
     {},
     "photo.yaml:4: problem.operator.kernel.gaussian.sigma is 0 (it must be one or two widths > 0, both in "
     "pixels or both in percent of the image width) write for example [1.6, 1.6] or [\"1 %\", \"0.5 %\"]"},
    {"FactorFive",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: downsampling, factor: 5, "
     "kernel: {gaussian: {sigma: 1}}}\n",
     {},
     "photo.yaml:4: problem.operator.factor is 5 (it must be a whole number >= 2, <= 4) write for example "
     "'factor: 2'"},
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
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, angles: {last: 90}, "
     "parts: [{type: blur, kernel: {gaussian: {sigma: 1}}}]}\n",
     {},
     "photo.yaml:4: problem.operator.angles.count is missing (angles need their number) write for example "
     "'count: 8'"},
    {"AnglesOfAMask",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, angles: {count: 4}, "
     "parts: [{type: mask, keep: 0.5}]}\n",
     {},
     "photo.yaml:4: problem.operator.angles do not fit the parts (they turn one part with a Gaussian kernel) "
     "write that one part"},
    {"AnglesBesideAnAngle",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, angles: {count: 4}, "
     "parts: [{type: blur, kernel: {gaussian: {sigma: 1, angle: 3}}}]}\n",
     {},
     "photo.yaml:4: problem.operator.parts.0.kernel.gaussian.angle acts on nothing in this job (angles gives "
     "every angle) remove it"},
    {"StartFromSmallMeasurement",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: downsampling, kernel: "
     "{gaussian: {sigma: 1}}}\nsolver: {start: measurement}\n",
     {},
     "photo.yaml:5: solver.start is measurement (this operator's measurement is no image of the unknown's "
     "size) write adjoint"},
    {"OverrideWithoutValue",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"solver.iterations"},
     "--set solver.iterations: no key=value (an override names a key and its value) write for example --set "
     "solver.iterations=50"},
    {"OverrideUnknown",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"solver.iteration=3"},
     "--set solver.iteration=3: unknown key solver.iteration (it would be ignored) did you mean "
     "solver.iterations?"},
    {"OverrideBadValue",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"solver.iterations=three"},
     "--set solver.iterations=three: solver.iterations is three (it must be a whole number >= 1, <= 1000000) "
     "write for example 'iterations: 20'"},
    {"OverrideNotYaml",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"solver.sigma=[0.1"},
     "--set solver.sigma=[0.1: the value is not YAML (end of sequence flow not found) put quotes around it"},
    {"OverrideBelowAValue",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"problem.truth.file=a.png"},
     "--set problem.truth.file=a.png: problem.truth is photo.png in the file (a single value has no keys "
     "below it) set it as a whole"},
    {"OverrideNoSuchPart",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, parts: [{type: "
     "identity}]}\n",
     {"problem.operator.parts.3.type=mask"},
     "--set problem.operator.parts.3.type=mask: problem.operator.parts has no entry '3' (it is a list of 1, "
     "counted from 0) name one of them or replace the list"},
    {"OverrideRemovesNothing",
     "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
     {"solver.sigma=null"},
     "--set solver.sigma=null: solver.sigma is not in the file (null takes a key away) leave this out"},
};

class BadJob : public testing::TestWithParam<BadInput> {};

TEST_P(BadJob, HasItsMessage) {
  const test::JobFolder folder;
  try {
    parse_job(GetParam().text, folder.path() + "/photo.yaml", GetParam().overrides);
    FAIL() << "accepted: " << GetParam().text;
  } catch (const InputError& error) {
    EXPECT_EQ(folder.shorten(error.what()), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(Config, BadJob, testing::ValuesIn(bad_inputs),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tessera
