//! A macro for enumerations with names.

/// Defines an enumeration whose values have names, in the order of its values.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $value,)*
        }

        impl $name {
            /// All values in their order.
            pub const ALL: [$name; [$($text),*].len()] = [$($name::$value),*];

            /// The name in the API, in messages and in settings.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$value => $text,)*
                }
            }

            /// The value with this name.
            pub fn parse(name: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
