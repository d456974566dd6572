// The ioctls of a virtual machine's files and of userfaultfd that reports show by name
// (linux/kvm.h, linux/userfaultfd.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace trapline {

struct Ioctl {
  std::uint32_t command;
  std::string_view name;
};
inline constexpr Ioctl kIoctls[] = {
    {0x4008ae61, "KVM_IRQ_LINE"},        {0xc008ae67, "KVM_IRQ_LINE_STATUS"},
    {0x4020aea5, "KVM_SIGNAL_MSI"},      {0x4010ae42, "KVM_GET_DIRTY_LOG"},
    {0xc018aec0, "KVM_CLEAR_DIRTY_LOG"}, {0x4020ae46, "KVM_SET_USER_MEMORY_REGION"},
    {0x4040ae79, "KVM_IOEVENTFD"},       {0x4020ae76, "KVM_IRQFD"},
    {0x4008ae6a, "KVM_SET_GSI_ROUTING"}, {0xc028aa03, "UFFDIO_COPY"},
    {0xc020aa04, "UFFDIO_ZEROPAGE"},     {0xc028aa05, "UFFDIO_MOVE"},
    {0xc018aa06, "UFFDIO_WRITEPROTECT"}, {0xc020aa07, "UFFDIO_CONTINUE"},
    {0xc020aa08, "UFFDIO_POISON"},       {0x8010aa02, "UFFDIO_WAKE"}};

}  // namespace trapline
