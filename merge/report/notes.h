// Notes that a reader of a report's figures needs: what was not recorded, and how that affects the
// figures. Notes about single sources come with the input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/model/loss_counts.h"
#include "merge/pass/pass.h"
#include "merge/report/report_data.h"

namespace trapline {

// Returns notes for a result that is not a report: those of the input, and how the model divides
// times.
[[nodiscard]] std::vector<std::string> notes_of(const PassEnd& pass);

// Adds what the sources of the timeline note about themselves, their damage, and their losses
// without a place, as far as they were read.
void note_sources(const Timeline& timeline, std::vector<std::string>& notes);

// Adds a note if the trace-events-all that the user named declares none of the VMM's events in
// `names`, which are the pipeline's after reading.
void note_declarations(const Input& input, const Names& names, std::vector<std::string>& notes);

// Adds a note on CPUs of the host that were not recorded, though threads went there.
void note_unseen_cpus(const Pipeline& pipeline, std::vector<std::string>& notes);

// Returns the notes of a report, which must have its model and its vCPUs.
[[nodiscard]] std::vector<std::string> notes_of(const ReportData& report,
                                                const Capabilities& capabilities, bool several_vms);

// Returns whether user space served exits, and no event of QEMU's says for which device.
[[nodiscard]] bool lacks_regions(const ReportData& report);
// Names what is not in the recording and would change a figure; empty: nothing. The notes say how.
[[nodiscard]] std::string not_recorded_text(const ReportData& report);

// Returns the note that no halt was seen in the recording or, if `is_window`, in the selected part.
[[nodiscard]] std::string no_halt_note(bool is_window, bool has_losses);

// Returns whether the cost of exits, as a share of the busy time, is only a lower limit: a VM that
// idles without a halt does so in its own time, and a halt that is not divided contains part of the
// cost.
[[nodiscard]] bool costs_at_least(const Naming& names);
// Returns the words before the exits' share of the busy time, "exits cost ". They say so if waits
// for a CPU are in that share because they were not recorded.
[[nodiscard]] std::string_view exits_cost(const ExitModel& model, const Overhead& overhead,
                                          bool at_least);

// Returns the losses in the analysed interval; those of sources other than the host's kernel as far
// as the sources were read.
[[nodiscard]] LossCounts losses_of(const Timeline& timeline, const Pipeline& pipeline);
// Returns losses_note() for losses_of(); empty: nothing was lost.
[[nodiscard]] std::string losses_note(const PassEnd& pass);
// Says what losses, one or more, do to the exits, for messages and notes.
[[nodiscard]] std::string losses_note(const LossCounts& losses);
// Formats SourceCounters::lost_unplaced.
[[nodiscard]] std::string unplaced_text(std::uint64_t events);
// Returns "34 events in 2 losses (1 of them without a count)", "an unknown number of events in 1
// loss".
[[nodiscard]] std::string losses_text(const LossCounts& losses);

}  // namespace trapline
