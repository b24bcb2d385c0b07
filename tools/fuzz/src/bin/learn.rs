//! libFuzzer for the target `learn`. The target has its own binary, so that libFuzzer counts only the edges that it can
//! reach.

#![no_main]
fuzz::libfuzzer!(learn);
