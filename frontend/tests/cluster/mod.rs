//! The way of a store to PostgreSQL and back, and the commands of a cluster. The tests need a PostgreSQL server, whose URL for
//! a superuser is in `MAILPROBE_TEST_POSTGRES`:
//!
//! `cargo xtask postgres --no-fsync -- cargo test -p frontend --test all cluster::`
//!
//! `MAILPROBE_TEST_POSTGRES_PROGRAMS` is the folder with its programs. Without a server the tests print a line and pass. Each test has a schema of its own.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod commands;
mod content;
mod deletion;
mod moves;
mod retention;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use store_pg::{ClusterPlace, Target};
use tempfile::TempDir;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A schema of its own, and a folder for the data folders and files of a test.
struct TestCluster {
    url: String,
    schema: String,
    folder: TempDir,
}

impl TestCluster {
    /// `None` without a server.
    fn get(test: &str) -> Option<TestCluster> {
        let Ok(url) = std::env::var("MAILPROBE_TEST_POSTGRES") else {
            println!("skipped: {test} needs MAILPROBE_TEST_POSTGRES");
            return None;
        };
        let url = format!("{}?sslmode=disable", url.split('?').next().unwrap());
        let schema = format!("f{}_{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Some(TestCluster { url, schema, folder: tempfile::tempdir().unwrap() })
    }

    /// Another schema with the same folder.
    fn other_schema(&self) -> String {
        format!("{}b", self.schema)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn place(&self, schema: &str) -> ClusterPlace {
        ClusterPlace {
            target: Target::parse(&self.url).unwrap(),
            schema: schema.into(),
            requires_sync: false,
        }
    }

    /// A command with the settings of a schema, or of none.
    fn command<S: AsRef<OsStr>>(&self, schema: Option<&str>, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailprobe"));
        command.args(arguments).env_clear().current_dir(self.folder.path());
        if let Some(schema) = schema {
            command.env("MAILPROBE_STORE_URL", &self.url).env("MAILPROBE_STORE_SCHEMA", schema);
            command.env("MAILPROBE_STORE_REQUIRE_SYNC", "false");
        }
        command
    }

    /// Runs a command that succeeds; returns its output.
    #[track_caller]
    fn run(&self, schema: Option<&str>, line: &str) -> String {
        let output = self.command(schema, &words(line)).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that fails; returns its error, without the password.
    #[track_caller]
    fn refused(&self, schema: Option<&str>, line: &str) -> String {
        let output = self.command(schema, &words(line)).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("mailprobe: ") && said.lines().count() == 1, "{said}");
        said
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
