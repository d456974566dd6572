// Facts that the recording's events tell. A figure that they do not tell is not 0: the page says so, as the text does.
import type { Fields, Recording } from "./types";

export const kRecord = "trapline record";
export const kNoExits = "not recorded (kvm:kvm_exit)";

export const knowsDurations = (data: Recording): boolean => data.user_end !== "none" || (data.counters["exits"] ?? 0) === 0;

export const theVcpus = (data: Recording): string => (data.vcpus.length === 1 ? "the vCPU" : "the vCPUs");
export const whose = (data: Recording): string => (data.vcpus.length === 1 ? "the vCPU's" : "the vCPUs'");

export const knowsGuest = (data: Recording): boolean => data.vcpus.some((vcpu) => vcpu.guest_ns !== null);

// Without kvm_userspace_exit the kernel's part holds QEMU's.
export const kernelOf = (parts: Fields | undefined): string => (parts?.["user_ns"] === null ? "kernel or QEMU" : "kernel");

// Returns the name of a state or of a part of an exit.
export const signOf = (state: string, of?: Fields): string => (state === "kernel" ? kernelOf(of) : state === "user" ? "user (QEMU)" : state.replace("_", " "));
