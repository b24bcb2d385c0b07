//! The binary. The library contains all of its code.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator requests huge pages, and a thread with few sessions fills only a part of each. Without huge pages ten
    // thousand sessions take a quarter less memory and no more CPU. A kernel without this switch changes nothing.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    frontend::cli::main(std::env::args_os(), frontend::cli::start_engine)
}
