//! The binary; everything it does stands in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator asks for huge pages, of which a thread with few sessions fills a part. Without them ten thousand
    // sessions take a quarter less memory and no more CPU. Where the kernel knows no such switch, nothing is lost.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    frontend::cli::main(std::env::args_os(), frontend::cli::start_engine)
}
