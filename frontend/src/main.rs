//! The binary; everything it does stands in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    frontend::cli::main(std::env::args_os(), frontend::cli::start_engine)
}
