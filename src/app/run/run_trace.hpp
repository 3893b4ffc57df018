// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/app/output.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/trace/trace.hpp"

namespace tessera {

/// What stands at the head of this rank's trace: the job, the machine, the place.
TraceHeader trace_header(const RunPlan& plan, const std::string& command_line, const Communicator& comm);

/// A resumed run's trace goes on in the same files where every rank finds one of its block; otherwise the old
/// ones are kept as trace-0, trace-1 and so on. Collective.
std::unique_ptr<TraceWriter> open_trace(const OutputFolder& folder, const TraceHeader& header, int every,
                                        TraceBegin begin, const Communicator& comm);

}  // namespace tessera
