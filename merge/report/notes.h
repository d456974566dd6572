// What a reader has to know of a report's figures: what was not recorded, and what that makes of
// them. Notes of single sources come with the input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/model/loss_counts.h"
#include "merge/pass/pass.h"
#include "merge/report/report_data.h"

namespace trapline {

// Notes for a result that is no report: those of the input, and what the model makes of the times.
[[nodiscard]] std::vector<std::string> notes_of(const Pass& pass);

// The facts of the timeline's sources that are called "note", and their losses without a place: of
// what was read so far.
void note_sources(const Timeline& timeline, std::vector<std::string>& notes);

// Where the trace-events-all that the user named declares none of a VMM's events among `names`: the
// pipeline's, when it has read.
void note_declarations(const Input& input, const Names& names, std::vector<std::string>& notes);

// `report` has its model and its vCPUs.
[[nodiscard]] std::vector<std::string> notes_of(const ReportData& report,
                                                const Capabilities& capabilities, bool several_vms);

// Where no halt was seen, in the recording or the part of it that was looked at.
[[nodiscard]] std::string no_halt_note(bool is_window);

// Whether exits cost more than is told, as a share of the busy time: a guest that idles without a
// halt does so in its own time, and a halt that nothing divides has part of the cost.
[[nodiscard]] bool costs_at_least(const ExitTracker& exits);

// losses_note() of all sources of the timeline, as far as they were read; empty: nothing was lost.
[[nodiscard]] std::string losses_note(const Timeline& timeline);
// What losses, one or more, do to the exits: for messages and notes.
[[nodiscard]] std::string losses_note(const LossCounts& losses);
// Of SourceCounters::lost_unplaced.
[[nodiscard]] std::string unplaced_text(std::uint64_t events);
// "34 events in 2 losses (1 of them without a count)", "an unknown number of events in 1 loss".
[[nodiscard]] std::string losses_text(const LossCounts& losses);

}  // namespace trapline
