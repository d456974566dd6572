// The records of a trace.dat by libtracecmd, for files that the page reader does not know.
#include "merge/worker/channel.h"
#include "merge/worker/tracecmd_reader.h"

namespace trapline::worker {
namespace {

MessageWriter rows;

void take(std::uint64_t time, std::int64_t missed, std::uint32_t cpu, std::uint32_t stream,
          const void* data, std::uint32_t size) {
  rows.number(time);
  rows.number(static_cast<std::uint64_t>(missed));
  rows.number(cpu);
  rows.number(stream);
  rows.text({static_cast<const char*>(data), size});
  answer_piece(MessageKind::kRecords, rows);
}

}  // namespace

void read_records(Request&& request) {
  if (request.kind != MessageKind::kFile) return;
  if (trapline_each_record(request.file.get(), take) == 0) {
    answer_end(MessageKind::kRecords, rows);
  } else {
    if (rows.size() != 0) answer(MessageKind::kRecords, rows.bytes());
    refuse(ErrorKind::kDamaged, "damaged: libtracecmd failed while reading it");
  }
}

}  // namespace trapline::worker
