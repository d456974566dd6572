#ifndef FAKE_TRACE_SIMPLE_H
#define FAKE_TRACE_SIMPLE_H
#define MAX_TRACE_STRLEN 512
typedef struct {
  size_t promised, written;
} TraceBufferRecord;
int trace_record_start(TraceBufferRecord* record, uint32_t id, size_t size);
void trace_record_write_u64(TraceBufferRecord* record, uint64_t value);
void trace_record_write_str(TraceBufferRecord* record, const char* text, uint32_t size);
void trace_record_finish(TraceBufferRecord* record);
#endif
