//! A macro for types with secrets.

/// Gives types a `Debug` that shows their name only: they have secrets, and `Debug` output may be logged.
macro_rules! quiet_debug {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
pub(crate) use quiet_debug;
