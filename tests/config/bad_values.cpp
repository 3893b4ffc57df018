// SPDX-License-Identifier: BSD-3-Clause
// Files, keys, single values and overrides that cannot be read.
#include "config/bad_jobs.hpp"

namespace tessera::test {

const std::vector<BadJob>& bad_values() {
  static const std::vector<BadJob> rows = {
      {"NotYaml",
       "problem: {truth: photo.png\n",
       {},
       "photo.yaml:2: the file is not YAML (end of map flow not found) check indentation, colons and "
       "brackets"},
      {"Empty",
       "# nothing\n",
       {},
       "photo.yaml: the file holds no keys (a job is a map of keys) start from an example of "
       "docs/job_file.md"},
      {"AList",
       "- problem\n- solver\n",
       {},
       "photo.yaml: the file holds no keys (a job is a map of keys) start from an example of "
       "docs/job_file.md"},
      {"TwoDocuments",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n---\nproblem:\n  truth: photo.png\n  noise: "
       "{gaussian: 0.01}\n",
       {},
       "photo.yaml: the file holds more than one document (a job is one) remove what follows '---', or a ',' "
       "that "
       "stands alone"},
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
       "photo.yaml:2: the values are nested too deep, or too many (no job needs more than 20 levels) look "
       "for "
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
      {"UnknownKeyOfASectionInside",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {sigma: "
       "1.6}}\n",
       {},
       "photo.yaml:4: unknown key problem.operator.kernel.sigma (it would be ignored) did you mean "
       "problem.operator.kernel.gaussian.sigma?"},
      {"HomeOfSomebodyElse",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {folder: ~max/results}\n",
       {},
       "the path ~max/results begins at ~max (only ~ alone stands for a folder, your home) write the path "
       "itself"},
      {"VariableThatIsNotSet",
       "problem:\n  truth: $TESSERA_NO_SUCH/photo.png\n  noise: {gaussian: 0.01}\n",
       {},
       "the path $TESSERA_NO_SUCH/photo.png has $TESSERA_NO_SUCH (TESSERA_NO_SUCH is not set here) write the "
       "path itself"},
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
       "photo.yaml:4: solver is pgd (it must be a map of keys) write its keys below it; known here: name, "
       "iterations, step, sigma, lambda, bounds, prox_iterations, prox_tolerance, start, stop, relaxation, "
       "momentum, inertia, dual_step, window"},
      {"ValueMissing",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver:\n  iterations:\n",
       {},
       "photo.yaml:5: solver.iterations has no value (nothing stands after the colon) write one or remove "
       "the "
       "key"},
      {"NotANumber",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: many}\n",
       {},
       "photo.yaml:4: solver.iterations is many (it must be a whole number > 0, <= 1000000 or auto) write "
       "for "
       "example "
       "'iterations: 20'"},
      {"NotWhole",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: 2.5}\n",
       {},
       "photo.yaml:4: solver.iterations is 2.5 (it must be a whole number > 0, <= 1000000 or auto) write for "
       "example "
       "'iterations: 20'"},
      {"BelowItsLimit",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: 0}\n",
       {},
       "photo.yaml:4: solver.iterations is 0 (it must be a whole number > 0, <= 1000000 or auto) write for "
       "example "
       "'iterations: 20'"},
      {"AboveItsLimit",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {relaxation: 2.5}\n",
       {},
       "photo.yaml:4: solver.relaxation is 2.5 (it must be a number > 0, <= 1) write for example "
       "'relaxation: "
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
       "photo.yaml:4: solver.stop.residual is .nan (it must be a number >= 0) write for example 'residual: "
       "0'"},
      {"NeitherTrueNorFalse",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, boundary: valid, "
       "kernel: {gaussian: {sigma: 1}}}\noutput: {crop: yes}\n",
       {},
       "photo.yaml:5: output.crop is yes (it must be true or false) write for example 'crop: true'"},
      {"UnknownChoice",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {name: pdg}\n",
       {},
       "photo.yaml:4: solver.name is pdg (it must be one of auto, pgd, fista, hqs, admm, red, gspnp, "
       "proxpnp, richardson_lucy, fbp, sirt) did "
       "you mean pgd?"},
      {"WrongListLength",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\ndomain: {grid: [2, 2, 2, 2]}\n",
       {},
       "photo.yaml:4: domain.grid is [2, 2, 2, 2] (it must be 2 or 3 whole numbers >= 1 or auto) write for "
       "example "
       "'grid: [2, 2]'"},
      {"ListForANumber",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {iterations: [3, 4]}\n",
       {},
       "photo.yaml:4: solver.iterations is [3, 4] (it must be a whole number > 0, <= 1000000 or auto) write "
       "for "
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
       "photo.yaml:4: memory is 8 (it must be auto, a share > 0, <= 1 of the memory, or an amount of at "
       "least "
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
       "photo.yaml:4: solver.sigma has 3 values (solver.iterations is 2, the others would be ignored) "
       "shorten "
       "the list"},
      {"StepIsZero",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\nsolver: {step: 0}\n",
       {},
       "photo.yaml:4: solver.step is 0 (it must be a number > 0, a list of them, {log: [first, last]}, "
       "{linear: [first, last]}, dpir, {dpir: last} or auto) write for example {log: [0.2, 0.01]}"},
      {"PreviewInAFolder",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview: a/b.png}\n",
       {},
       "photo.yaml:4: output.preview is a/b.png (it must be the plain name of a .png, .jpg or .tif) write "
       "for "
       "example 'preview: result.png'"},
      {"PreviewBitsOdd",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\noutput: {preview_bits: 12}\n",
       {},
       "photo.yaml:4: output.preview_bits is 12 (it must be auto, 8, 16 or 32) write for example "
       "'preview_bits: 16'"},
      {"OperatorIsAWord",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: blur\n",
       {},
       "photo.yaml:4: problem.operator is blur (it must be a map of keys) write its keys below it; known "
       "here: "
       "type, kernel, boundary, parts, angles, file, keep, method, factor, phase, beam, values, rings, "
       "hardening, "
       "views, align, detector, voxel, source_axis, source_detector, helix, lean, rotation_center, paganin"},
      {"MaskKeepsNothing",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: mask, keep: 0}\n",
       {},
       "photo.yaml:4: problem.operator.keep is 0 (it must be a number > 0, <= 1) write for example 'keep: "
       "0.5'"},
      {"SigmaMixed",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
       "{sigma: [1 %, 2]}}}\n",
       {},
       "photo.yaml:4: problem.operator.kernel.gaussian.sigma is [1 %, 2] (it must be one or two widths > 0, "
       "both in pixels or both in percent of the image width, or three in pixels) write for example [1.6, "
       "1.6], "
       "[\"1 %\", \"0.5 %\"] or, of a volume, [2, 1.6, 1.6]"},
      {"SigmaZero",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: blur, kernel: {gaussian: "
       "{sigma: 0}}}\n",
       {},
       "photo.yaml:4: problem.operator.kernel.gaussian.sigma is 0 (it must be one or two widths > 0, both in "
       "pixels or both in percent of the image width, or three in pixels) write for example [1.6, 1.6], [\"1 "
       "%\", "
       "\"0.5 %\"] or, of a volume, [2, 1.6, 1.6]"},
      {"FactorSeventeen",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: downsampling, factor: "
       "17, "
       "kernel: {gaussian: {sigma: 1}}}\n",
       {},
       "photo.yaml:4: problem.operator.factor is 17 (it must be a whole number or 3 of them >= 1, <= 16) "
       "write for "
       "example "
       "'factor: 2'"},
      {"OverrideWithoutValue",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
       {"solver.iterations"},
       "--set solver.iterations: no key=value (an override names a key and its value) write for example "
       "--set "
       "solver.iterations=50"},
      {"OverrideUnknown",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
       {"solver.iteration=3"},
       "--set solver.iteration=3: unknown key solver.iteration (it would be ignored) did you mean "
       "solver.iterations?"},
      {"OverrideBadValue",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
       {"solver.iterations=three"},
       "--set solver.iterations=three: solver.iterations is three (it must be a whole number > 0, <= "
       "1000000 or auto) "
       "write for example 'iterations: 20'"},
      {"OverrideNotYaml",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
       {"solver.sigma=[0.1"},
       "--set solver.sigma=[0.1: the value is not YAML (end of sequence flow not found) put quotes around "
       "it"},
      {"OverrideBelowAValue",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
       {"problem.truth.file=a.png"},
       "--set problem.truth.file=a.png: problem.truth is photo.png in the file (a single value has no keys "
       "below it) set it as a whole"},
      {"OverrideNoSuchPart",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n  operator: {type: stack, parts: [{type: "
       "identity}]}\n",
       {"problem.operator.parts.3.type=mask"},
       "--set problem.operator.parts.3.type=mask: problem.operator.parts has no entry '3' (it is a list of "
       "1, "
       "counted from 0) name one of them or replace the list"},
      {"OverrideRemovesNothing",
       "problem:\n  truth: photo.png\n  noise: {gaussian: 0.01}\n",
       {"solver.sigma=null"},
       "--set solver.sigma=null: solver.sigma is not in the file (null takes a key away) leave this out"},
  };
  return rows;
}

}  // namespace tessera::test
