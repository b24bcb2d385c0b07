//! libFuzzer for the target `address`. It has a binary of its own so that libFuzzer counts the edges of what this target
//! can reach, and no others.

#![no_main]
fuzz::libfuzzer!(address);
