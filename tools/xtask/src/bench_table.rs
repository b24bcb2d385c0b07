//! `cargo xtask bench-table`: the latest figures of `cargo bench` as a table for docs/performance.md. It reads the
//! files of criterion in `target/criterion/*/new`.

use crate::interop::report::line;
use clap::Args;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The options of `cargo xtask bench-table`.
#[derive(Args)]
pub struct BenchTableOptions {
    /// Folder of criterion's results [default: criterion in CARGO_TARGET_DIR or target]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

/// The folders between criterion's root and a bench: group, function, value, `new`.
const DEPTH: usize = 4;

/// The figures of one bench.
#[derive(Debug, PartialEq)]
struct BenchRow {
    name: String,
    /// Nanoseconds per element: the estimate and the ends of its confidence interval.
    each: [f64; 3],
}

/// Prints the table; the exit code is 0 if there were figures.
pub fn main(options: &BenchTableOptions) -> ExitCode {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let from = options.from.clone().unwrap_or_else(|| target.join("criterion"));
    match rows(&from) {
        Ok(rows) => {
            table(&rows).iter().for_each(|row| line(row));
            ExitCode::SUCCESS
        }
        Err(error) => {
            line(&format!("bench-table: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn rows(from: &Path) -> Result<Vec<BenchRow>, String> {
    let mut rows = Vec::new();
    collect(from, DEPTH, &mut rows)?;
    if rows.is_empty() {
        return Err(format!("{} has no figures: run `cargo bench -p bench` first", from.display()));
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

fn collect(folder: &Path, depth: usize, rows: &mut Vec<BenchRow>) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.ends_with("new") && path.join("benchmark.json").exists() {
            rows.push(row(&path)?);
        } else if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, rows)?;
        }
    }
    Ok(())
}

fn row(folder: &Path) -> Result<BenchRow, String> {
    let read = |name: &str| -> Result<Value, String> {
        let path = folder.join(name);
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (bench, estimates) = (read("benchmark.json")?, read("estimates.json")?);
    let elements = bench["throughput"]["Elements"].as_f64().unwrap_or(1.0).max(1.0);
    // criterion prints the slope of a linear fit, or the mean if it has no slope.
    let found = [&estimates["slope"], &estimates["mean"]].into_iter().find(|one| one.is_object());
    let part = |path: &str| found.and_then(|found| found.pointer(path)).and_then(Value::as_f64);
    let each = ["/point_estimate", "/confidence_interval/lower_bound", "/confidence_interval/upper_bound"]
        .map(|path| part(path).map(|nanos| nanos / elements));
    match (bench["full_id"].as_str(), each) {
        (Some(name), [Some(middle), Some(low), Some(high)]) => {
            Ok(BenchRow { name: name.to_owned(), each: [middle, low, high] })
        }
        _ => Err(format!("{}: criterion writes its figures in another way", folder.display())),
    }
}

fn table(rows: &[BenchRow]) -> Vec<String> {
    let mut lines =
        vec!["| bench | each | 95 % interval | per second |".to_owned(), "|---|---:|---:|---:|".to_owned()];
    for BenchRow { name, each: [middle, low, high] } in rows {
        let second = 1e9 / middle.max(f64::MIN_POSITIVE);
        lines.push(format!(
            "| `{name}` | {} | {} - {} | {second:.0} |",
            time(*middle),
            time(*low),
            time(*high)
        ));
    }
    lines
}

fn time(nanos: f64) -> String {
    match nanos {
        _ if nanos < 1e3 => format!("{nanos:.1} ns"),
        _ if nanos < 1e6 => format!("{:.2} us", nanos / 1e3),
        _ => format!("{:.2} ms", nanos / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, throughput: &str, estimates: &str) {
        let new = folder.join(name).join("new");
        fs::create_dir_all(&new).unwrap();
        let bench = format!(r#"{{"full_id":"{name}","throughput":{throughput}}}"#);
        fs::write(new.join("benchmark.json"), bench).unwrap();
        fs::write(new.join("estimates.json"), estimates).unwrap();
    }

    #[test]
    fn figures_become_rows() {
        let folder = tempfile::tempdir().unwrap();
        let of = |nanos: u32| {
            format!(
                r#"{{"confidence_interval":{{"lower_bound":{},"upper_bound":{}}},"point_estimate":{nanos}}}"#,
                nanos - 10,
                nanos + 10
            )
        };
        write(folder.path(), "dns/encode", "null", &format!(r#"{{"slope":{},"mean":{}}}"#, of(500), of(900)));
        let mean = format!(r#"{{"slope":null,"mean":{}}}"#, of(250_000));
        write(folder.path(), "dialog/rcpt", r#"{"Elements":100}"#, &mean);
        fs::create_dir_all(folder.path().join("report")).unwrap();
        let lines = table(&rows(folder.path()).unwrap());
        assert_eq!(lines[2], "| `dialog/rcpt` | 2.50 us | 2.50 us - 2.50 us | 400000 |");
        assert_eq!(lines[3], "| `dns/encode` | 500.0 ns | 490.0 ns - 510.0 ns | 2000000 |");
    }

    #[test]
    fn no_figures_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(rows(folder.path()).unwrap_err().contains("cargo bench"));
        write(folder.path(), "a/b", "null", "{}");
        assert!(rows(folder.path()).unwrap_err().contains("another way"));
    }
}
