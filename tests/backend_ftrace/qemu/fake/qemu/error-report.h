#ifndef FAKE_QEMU_ERROR_REPORT_H
#define FAKE_QEMU_ERROR_REPORT_H
extern bool message_with_timestamp;
#endif
