// Translation: chooses the callbacks of each instruction. Also contains the callbacks (hot).
#include <cstdio>
#include <utility>

#include "plugin/session.h"

namespace trapline {
namespace {

// The data of a callback is a level or a Site.
void* level_data(unsigned level) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(level));
}
unsigned level_of(void* data) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(data));
}
const Site& site_of(void* data) { return *static_cast<const Site*>(data); }

// --- x86: the stack shows calls and returns -----------------------------------------------------

void pushed(unsigned index, std::uint32_t, std::uint64_t slot, void* data) {
  const Site& site = site_of(data);
  trackers[index]->call(site, site.function, slot);
}

// The instruction reads its target first; then it pushes.
void read_target_then_pushed(unsigned index, std::uint32_t info, std::uint64_t slot, void* data) {
  Vcpu& vcpu = session->vcpu(index);
  if (!session->api.is_store(info)) {
    if (session->api.memory_value != nullptr)
      vcpu.target = session->api.memory_value(info).narrow();
    return;
  }
  if (vcpu.target != 0) {
    if (session->follows(vcpu.target)) vcpu.tracker->call(site_of(data), vcpu.target, slot);
    vcpu.target = 0;
  } else if (session->api.memory_value == nullptr) {
    vcpu.delayed = static_cast<const Site*>(data);
    vcpu.delayed_slot = slot;
  }
}

// Far calls push the code segment first.
void pushed_far(unsigned index, std::uint32_t info, std::uint64_t slot, void* data) {
  Vcpu& vcpu = session->vcpu(index);
  if (!session->api.is_store(info)) {
    if (vcpu.target == 0 && session->api.memory_value != nullptr)
      vcpu.target = session->api.memory_value(info).narrow();
    return;
  }
  if (vcpu.far_slot - slot - 1 < 8) {
    const Site& site = site_of(data);
    vcpu.far_slot = 0;
    const std::uint64_t target = site.function != 0 ? site.function : vcpu.target;
    vcpu.target = 0;
    if (target != 0 && session->follows(target)) vcpu.tracker->call(site, target, slot);
  } else {
    vcpu.far_slot = slot;
  }
}

void popped(unsigned index, std::uint32_t info, std::uint64_t slot, void* data) {
  trackers[index]->return_at(level_of(data), slot, [info]() -> std::uint64_t {
    return session->api.memory_value != nullptr ? session->api.memory_value(info).narrow() : 0;
  });
}

void popped_far(unsigned index, std::uint32_t info, std::uint64_t slot, void* data) {
  Vcpu& vcpu = session->vcpu(index);
  if (slot - vcpu.far_slot - 1 < 8) {  // the segment, which follows the address
    vcpu.far_slot = 0;
    return;
  }
  vcpu.far_slot = slot;
  popped(index, info, slot, data);
}

void call_register_x86(unsigned index, void* data) {
  Vcpu& vcpu = session->vcpu(index);
  vcpu.target = vcpu.guest.general(site_of(data).reg);
}

void delayed_call(unsigned index, void* data) {
  Vcpu& vcpu = session->vcpu(index);
  if (vcpu.delayed == nullptr) return;
  const Site& site = *vcpu.delayed;
  vcpu.delayed = nullptr;
  vcpu.tracker->call(site, reinterpret_cast<std::uintptr_t>(data), vcpu.delayed_slot);
}

// --- link-register architectures -----------------------------------------------------------------

void linked(unsigned index, void* data) {
  const Site& site = site_of(data);
  trackers[index]->call(site, site.function, 0);
}

void linked_register(unsigned index, void* data) {
  const Site& site = site_of(data);
  Vcpu& vcpu = session->vcpu(index);
  const std::uint64_t target =
      vcpu.guest.general(site.reg) + static_cast<std::uint64_t>(site.offset);
  if (!session->follows(target)) return;
  vcpu.tracker->call(site, target & ~std::uint64_t{1}, 0);
}

void returned(unsigned index, void* data) {
  Vcpu& vcpu = session->vcpu(index);
  vcpu.tracker->return_plain(level_of(data), [&vcpu] { return vcpu.guest.link(); });
}

void saved_link(unsigned index, std::uint32_t, std::uint64_t slot, void*) {
  trackers[index]->return_address_saved(slot);
}

void set_stack_pointer(unsigned index, void*) { trackers[index]->stack_pointer_set(); }

// --- all architectures --------------------------------------------------------------------------

// Packs an address and a level into one pointer; addresses are sign-extended from far below bit 60.
void* start_data(std::uint64_t address, unsigned level) {
  return reinterpret_cast<void*>(address << 4 | level);
}
void at_start(unsigned index, void* data) {
  const auto packed = reinterpret_cast<std::intptr_t>(data);
  trackers[index]->function_start(static_cast<unsigned>(packed & 15),
                                  static_cast<std::uint64_t>(packed >> 4));
}

void at_vector(unsigned index, void* data) {
  const Site& site = site_of(data);
  trackers[index]->event(site.level, site.function);
}

void system_call(unsigned index, void* data) { trackers[index]->system_call(level_of(data)); }
void system_return(unsigned index, void*) { trackers[index]->system_return(); }
void interrupt_return(unsigned index, void* data) {
  trackers[index]->interrupt_return(level_of(data));
}

// Both do nothing if the vCPU records, or does not, already: then all vCPUs do, or have been told.
void start_here(unsigned index, void*) {
  if (trackers[index]->recording() && trackers[index]->will_record()) return;
  std::scoped_lock lock(session->translation);
  session->switched_on = true;
  for (auto& slot : session->vcpus) {
    Vcpu* vcpu = slot.load();
    if (vcpu == nullptr) continue;
    if (vcpu->index == index)
      vcpu->tracker->start_recording_in(session->start_address);
    else if (!vcpu->tracker->will_record())
      vcpu->tracker->request_recording(true);
  }
}
void stop_here(unsigned index, void*) {
  if (!trackers[index]->recording() && !trackers[index]->will_record()) return;
  std::scoped_lock lock(session->translation);
  session->switched_on = false;
  for (auto& slot : session->vcpus) {
    Vcpu* vcpu = slot.load();
    if (vcpu == nullptr) continue;
    if (vcpu->index == index)
      vcpu->tracker->stop_recording();
    else
      vcpu->tracker->request_recording(false);
  }
}

// --- the magic no-op -----------------------------------------------------------------------------

// Stamps the magic no-op. Between the stamp and the return are only six register reads, because the
// time until the guest reads its clock again is part of the bracket. The text is made when the
// series is complete.
void synchronized(unsigned index, void*) {
  Vcpu& vcpu = session->vcpu(index);
  StampedSync sync{vcpu.tracker->clock().now(), {}};
  const std::span<const std::uint8_t> operands = session->arch->operands;
  for (std::size_t i = 0; i < operands.size() && i < 6; ++i)
    sync.operands[i] = vcpu.guest.general(operands[i]);
  constexpr std::size_t kMostPending = 64;
  constexpr std::uint64_t kBefore = 1 << 8;
  if (vcpu.syncs.capacity() == 0) vcpu.syncs.reserve(kMostPending);
  vcpu.syncs.push_back(sync);
  if ((sync.operands[0] & kBefore) == 0 || vcpu.syncs.size() >= kMostPending) write_syncs(vcpu);
}

// --- mode=frame-pointer -------------------------------------------------------------------------

// Reads the saved frame pointer and the return address of the frame at `frame`.
bool read_frame(Vcpu& vcpu, std::uint64_t frame, std::uint64_t (&saved)[2]) {
  const std::uint64_t at = frame + static_cast<std::uint64_t>(session->arch->saved_pair);
  return frame != 0 && frame % 8 == 0 && vcpu.guest.read_memory(at, saved, sizeof saved);
}

// Limit for a chain of frames, which can have any length in a guest's memory.
constexpr std::size_t kMostFrames = 1024;

void tell_of_deep_stack_slow() {
  if (session->told_of_deep_stack.exchange(true)) return;
  std::fprintf(stderr,
               "trapline plugin: a stack had more than %zu frames that were not seen before; those "
               "further out are recorded when the guest returns to them\n",
               kMostFrames);
}

// Called when a block begins. If the frame pointer has changed since the last block, a function was
// entered (the last block is its first) or left. The saved frame pointers lead to further frames
// that were never seen.
void block_begins(unsigned index, void* data) {
  const Site& site = site_of(data);
  Vcpu& vcpu = session->vcpu(index);
  const std::uint64_t entry = std::exchange(vcpu.last_block, site.function);
  const std::uint64_t frame = vcpu.guest.frame_pointer();
  if (frame == vcpu.frame_pointer && vcpu.frame_level == site.level) return;
  vcpu.frame_pointer = frame;
  vcpu.frame_level = site.level;
  std::uint64_t saved[2];
  if (!read_frame(vcpu, frame, saved) || vcpu.tracker->frame_known(site.level, frame)) return;
  auto& missing = vcpu.missing_frames;
  missing.clear();
  std::uint64_t function = entry, at = frame;
  do {
    missing.push_back({at, saved[1], function});
    function = session->filter->start_of(saved[1]);
    if (saved[0] <= at) break;  // older frames are at higher addresses
    at = saved[0];
    if (missing.size() == kMostFrames) tell_of_deep_stack_slow();
  } while (missing.size() < kMostFrames && read_frame(vcpu, at, saved) &&
           !vcpu.tracker->frame_known(site.level, at));
  for (auto one = missing.rbegin(); one != missing.rend(); ++one)
    vcpu.tracker->frame_entered(one->frame, one->ret, one->function);
}

bool is_call(Flow flow) {
  return flow == Flow::kCall || flow == Flow::kCallRegister || flow == Flow::kCallMemory ||
         flow == Flow::kCallFar;
}

void instrument_x86(const qemu::Api& api, qemu::Instruction* insn, const Instruction& what,
                    const Site& site) {
  Site* const kept = is_call(what.flow) ? const_cast<Site*>(session->keep(site)) : nullptr;
  if (is_call(what.flow) && kept == nullptr) return;  // too many sites
  const auto after_target = [&] {
    api.register_memory(insn, read_target_then_pushed, qemu::kReadRegisters, qemu::kReadWrite,
                        kept);
  };
  // A return instruction only reads memory. But QEMU 9.0 takes a callback for reads to be one for
  // writes, and would never call it.
  const auto on_return = [&](auto callback) {
    api.register_memory(insn, callback, qemu::kReadRegisters, qemu::kReadWrite,
                        level_data(site.level));
  };
  if (what.flow == Flow::kCall) {
    api.register_memory(insn, pushed, qemu::kReadRegisters, qemu::kWrite, kept);
  } else if (what.flow == Flow::kCallRegister) {
    api.register_instruction(insn, call_register_x86, qemu::kReadRegisters, kept);
    after_target();
  } else if (what.flow == Flow::kCallMemory) {
    after_target();
  } else if (what.flow == Flow::kCallFar) {
    api.register_memory(insn, pushed_far, qemu::kReadRegisters, qemu::kReadWrite, kept);
  } else if (what.flow == Flow::kReturn) {
    on_return(popped);
  } else if (what.flow == Flow::kReturnFar) {
    on_return(popped_far);
  }
}

void instrument_linking(const qemu::Api& api, qemu::Instruction* insn, const Instruction& what,
                        const Site& site) {
  Site* const kept = is_call(what.flow) ? const_cast<Site*>(session->keep(site)) : nullptr;
  if (is_call(what.flow) && kept == nullptr) return;  // too many sites
  if (what.flow == Flow::kCall) {
    api.register_instruction(insn, linked, qemu::kReadRegisters, kept);
  } else if (what.flow == Flow::kCallRegister) {
    api.register_instruction(insn, linked_register, qemu::kReadRegisters, kept);
  } else if (what.flow == Flow::kReturn) {
    api.register_instruction(insn, returned, qemu::kReadRegisters, level_data(site.level));
  } else if (what.flow == Flow::kSaveReturnAddress) {
    api.register_memory(insn, saved_link, qemu::kNoRegisters, qemu::kWrite, nullptr);
  } else if (what.flow == Flow::kSetStackPointer) {
    api.register_instruction(insn, set_stack_pointer, qemu::kNoRegisters, nullptr);
  }
}

void instrument(const qemu::Api& api, qemu::Instruction* insn, const Instruction& what,
                const Site& site) {
  const bool calls = session->options.mode == Detection::kInstructions;
  if (!calls) {
    // mode=frame-pointer: block_begins() finds calls and returns
  } else if (session->arch->link.empty()) {
    instrument_x86(api, insn, what, site);
    if (what.flow == Flow::kSystemCall && !session->user_mode)  // user mode has no guest kernel
      api.register_instruction(insn, system_call, qemu::kNoRegisters, level_data(site.level));
  } else {
    instrument_linking(api, insn, what, site);
  }
  if (what.flow == Flow::kSystemReturn)
    api.register_instruction(insn, system_return, qemu::kReadRegisters, nullptr);
  if (what.flow == Flow::kInterruptReturn)
    api.register_instruction(insn, interrupt_return, qemu::kReadRegisters, level_data(site.level));
}

void instrument_block(qemu::Block* block, std::uint64_t address, unsigned level) {
  Session& s = *session;
  Site site;
  site.function = address;
  site.level = static_cast<std::uint8_t>(level);
  const auto keep = [&](qemu::VcpuDataCallback callback) {
    if (const Site* kept = s.keep(site))
      s.api.register_block(block, callback, qemu::kReadRegisters, const_cast<Site*>(kept));
  };
  if (!s.tracker_options.told_of_events && s.translation_guest->is_vector(address)) keep(at_vector);
  if (s.options.mode == Detection::kFramePointer) return keep(block_begins);
  if (s.api.memory_value == nullptr && s.arch->link.empty())
    s.api.register_block(block, delayed_call, qemu::kReadRegisters,
                         reinterpret_cast<void*>(address));
  if (s.tracker_options.know_starts && s.filter->is_start(address))
    s.api.register_block(block, at_start, qemu::kReadRegisters, start_data(address, level));
}

void check_switch(qemu::Instruction* insn, std::uint64_t address) {
  Session& s = *session;
  if (s.has_start && address == s.start_address)
    s.api.register_instruction(insn, start_here, qemu::kNoRegisters, nullptr);
  if (s.has_stop && address == s.stop_address)
    s.api.register_instruction(insn, stop_here, qemu::kNoRegisters, nullptr);
}

}  // namespace

void translated(qemu::Block* block) {
  Session& s = *session;
  const qemu::Api& api = s.api;
  std::scoped_lock lock(s.translation);
  s.guest_ran.store(true, std::memory_order_relaxed);
  if (!s.translation_guest) return;
  // QEMU translates a block for one privilege level, which is part of the block's identity.
  const unsigned level = s.translation_guest->level();
  const bool followed = s.follows(api.block_address(block));
  if (followed) instrument_block(block, api.block_address(block), level);
  const std::size_t count = api.block_size(block);
  for (std::size_t i = 0; i < count; ++i) {
    qemu::Instruction* insn = api.block_instruction(block, i);
    std::uint8_t bytes[16];
    const std::size_t size = api.read_instruction(insn, bytes);
    const std::uint64_t address = api.instruction_address(insn);
    if (s.has_start || s.has_stop) check_switch(insn, address);
    Instruction what = s.arch->decode({bytes, size}, address);
    if (what.flow == Flow::kSync)
      api.register_instruction(insn, synchronized, qemu::kReadRegisters, nullptr);
    if (!followed) {
      if (what.flow != Flow::kInterruptReturn) continue;
      // A kernel that is not followed may return to another thread, on another stack.
      what.flow = Flow::kSetStackPointer;
    }
    // A return from code that is not followed would not be seen.
    if (what.flow == Flow::kCall && !s.follows(what.target)) continue;
    if (what.flow == Flow::kNearCall)
      what.flow = s.tracker_options.know_starts && s.filter->is_start(what.target) ? Flow::kCall
                                                                                   : Flow::kOther;
    if (what.flow == Flow::kOther) continue;
    Site site;
    site.ret = address + size;
    site.function = what.target;
    site.level = static_cast<std::uint8_t>(level);
    site.reg = what.reg;
    site.offset = what.offset;
    instrument(api, insn, what, site);
  }
}

}  // namespace trapline
