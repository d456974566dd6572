/* The events and their states. */
#ifndef FAKE_TRACE_CONTROL_H
#define FAKE_TRACE_CONTROL_H
typedef struct TraceEvent {
  uint32_t id;
  const char* name;
  const bool sstate;
  uint16_t* dstate;
} TraceEvent;

extern int trace_events_enabled_count;
#define trace_event_get_state_dynamic_by_id(id) \
  (unlikely(trace_events_enabled_count) && _##id##_DSTATE)
#define trace_event_get_state(id) ((id##_ENABLED) && trace_event_get_state_dynamic_by_id(id))
#define trace_event_get_state_backends(id) ((id##_ENABLED) && id##_BACKEND_DSTATE())
void trace_event_register_group(TraceEvent** events);
void fake_switch_all(bool on);
#endif
