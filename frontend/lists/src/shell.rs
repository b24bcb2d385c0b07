//! Commands in messages, in the form in which a user can paste them into a shell.

use std::borrow::Cow;
use std::path::Path;

/// A word as a shell takes it: in single quotes, if it has characters that a shell would interpret.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// The name of a file as a shell takes it. A name that begins with `-` gets its folder, so that no program takes it for an option.
pub fn path(path: &Path) -> String {
    let name = path.to_string_lossy();
    let folder = if name.starts_with('-') && name != "-" { "./" } else { "" };
    quoted(&format!("{folder}{name}")).into_owned()
}

/// An option with its value, after a space.
pub fn option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { "=" } else { " " };
    format!(" {name}{between}{}", quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        let words =
            "mailprobe!!-o!a b!it's!$(id) `id`!a\\b!*?[x]!~!a;b|c>d<e&f!#x!é/ä@b:c.d,e=f!two\nlines!\""
                .split('!');
        let line = words.clone().map(quoted).collect::<Vec<_>>().join(" ");
        let script = format!("printf '%s\\0' {line}");
        let read = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
        assert!(std::str::from_utf8(&read).unwrap().split_terminator('\0').eq(words), "{line}");
        assert!(line.starts_with("mailprobe '' -o 'a b' 'it'\\''s' "), "{line}");
    }

    #[test]
    fn values_and_names_are_no_options() {
        assert_eq!(option("--column", "e-mail"), " --column e-mail");
        assert_eq!(option("--column", "e mail"), " --column 'e mail'");
        assert_eq!(option("--column", "-x y"), " --column='-x y'");
        assert_eq!(path(Path::new("-o.csv")), "./-o.csv");
        assert_eq!(path(Path::new("-")), "-");
        assert_eq!(path(Path::new("my list.csv")), "'my list.csv'");
    }
}
