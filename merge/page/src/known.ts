// What the recording's events tell. What they do not is not 0: the page says so, as the text does.
import type { Parts, Recording } from "./types";

export const kRecordDurations = "Record kvm:kvm_exit and kvm:kvm_entry as well (trapline record does).";

export function knowsDurations(data: Recording): boolean {
  return data.user_end !== "none" || (data.counters["exits"] ?? 0) === 0;
}

export const theVcpus = (data: Recording): string => (data.vcpus.length === 1 ? "the vCPU" : "the vCPUs");
export const whose = (data: Recording): string => (data.vcpus.length === 1 ? "the vCPU's" : "the vCPUs'");

export function knowsGuest(data: Recording): boolean {
  return data.vcpus.some((vcpu) => vcpu.guest_ns !== null);
}

// Without kvm_userspace_exit the kernel's part holds QEMU's.
export function kernelOf(parts: Pick<Parts, "user_ns"> | undefined): string {
  return parts?.user_ns === null ? "kernel or QEMU" : "kernel";
}
