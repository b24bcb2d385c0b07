//! The control socket of `cargo xtask cluster`: one line for a request, one for its answer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// The target of a fault.
pub struct FaultTarget {
    /// The name of the server.
    pub name: String,
    /// Whether another server becomes the primary.
    pub fails_over: bool,
}

pub struct Control(BufReader<UnixStream>);

impl Control {
    /// The socket; without one a line is printed.
    pub fn connect() -> Option<Control> {
        let Ok(path) = std::env::var("MAILPROBE_TEST_CLUSTER") else {
            println!("skipped: two nodes need MAILPROBE_TEST_CLUSTER (cargo xtask cluster -- ...)");
            return None;
        };
        Some(Control(BufReader::new(UnixStream::connect(path).unwrap())))
    }

    /// Sends a request, and returns the text of its answer.
    pub fn ask(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        let text = answer.trim_end().strip_prefix("ok").unwrap_or_else(|| panic!("{request}: {answer}"));
        text.trim_start().to_owned()
    }

    /// Begins a fault.
    pub fn begin(&mut self, fault: &str) -> FaultTarget {
        let answer = self.ask(&format!("begin {fault}"));
        let (name, kind) = answer.split_once(' ').unwrap();
        FaultTarget { name: name.to_owned(), fails_over: kind == "failover" }
    }
}
