//! seccomp filters for children (seccomp(2), linux/filter.h): system calls that are refused, or that notify this
//! process.

#![expect(unsafe_code, reason = "seccomp has no safe wrapper")]

use libc::sock_filter;
use std::io;

/// The offset of the system call's number in `struct seccomp_data`.
pub const NUMBER: u32 = 0;
/// The offset of the lower half of the call's first argument in `struct seccomp_data`.
pub const FIRST_ARGUMENT: u32 = 16;

/// An instruction that loads the word at this offset.
pub const fn load(offset: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

/// An instruction that compares the loaded word, and skips this many instructions.
pub const fn if_equal(value: u32, then: u8, otherwise: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, then, otherwise, value)
}

/// An instruction that ends with this action, a `libc::SECCOMP_RET_*`.
pub const fn end(action: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

/// An instruction that ends with this error for the caller.
pub const fn end_with_error(error: i32) -> sock_filter {
    end(libc::SECCOMP_RET_ERRNO | error.unsigned_abs())
}

const fn step(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// Installs a filter in this process, irrevocably. It may be called between fork and exec.
///
/// Returns the descriptor of the listener if the flags request one.
///
/// # Errors
///
/// The error of seccomp(2) or prctl(2).
pub fn install(program: &mut [sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain system calls; the filter and its program outlive the call that copies them.
    let given = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    if given < 0 { Err(io::Error::last_os_error()) } else { Ok(given as i32) }
}
