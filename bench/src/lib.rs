//! Benches of one hot thing each, in `benches/`. `cargo bench -p bench` runs them all;
//! `cargo bench -p bench -- --save-baseline NAME` and `--baseline NAME` compare.
