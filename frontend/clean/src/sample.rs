//! `--sample`: an estimate of the classes of a list from a part of its addresses.
//!
//! The list is read once. The sample is the `n` distinct addresses with the smallest keyed hashes ([`Smallest`]). Every set of `n`
//! addresses has the same chance. Only the sample is checked, as a list of its own.

use super::run_options::RunOptions;
use super::seen::Seen;
use super::summary::{Extent, Summary};
use super::{Checker, CleanArgs, CleanError, driver, progress, sink};
use lists::estimate::{ClassEstimate, Estimate, Smallest, interval};
use lists::{Class, ReadOptions, Row, Source};
use spill::State;
use spill::keyed::Keyed;
use std::io::Cursor;
use std::path::Path;

/// Chooses the sample, checks it and estimates the classes of the list.
///
/// # Errors
/// As `Job::run`.
pub(super) fn run(
    args: &CleanArgs,
    most: u32,
    mut source: Source,
    checker: &mut dyn Checker,
) -> Result<Summary, CleanError> {
    let seed = match args.writing.seed {
        Some(seed) => seed,
        None => random()?,
    };
    let memory = args.memory as usize * 1024 * 1024;
    let (replaces, is_sample, delivery) = (true, true, args.delivery()?);
    let options = sink::SinkOptions { replaces, is_sample, delivery, ..sink::SinkOptions::default() };
    let nowhere = Path::new("/dev/null");
    // From here on the sink prevents other runs from using these names, also that of the state.
    let sink = sink::Sink::open(Some(args.output.as_deref().unwrap_or(nowhere)), options)?;
    let mut estimate = Estimate { seed, ..Estimate::default() };
    let mut smallest = Smallest::new(most as usize, seed);
    let chosen = State::open(args.output.as_deref(), memory)
        .map_err(CleanError::from)
        .and_then(|state| choose(&mut source, state, &mut estimate, &mut smallest));
    let (sink, ()) = sink.and(chosen)?;
    let reading = super::summary::Reading::of(&source);
    let list = list(smallest.addresses());
    let csv = ReadOptions { format: Some(lists::Format::Csv), ..ReadOptions::default() };
    let (sink, source) = sink.and(Source::new(Box::new(Cursor::new(list)), "the sample", None, &csv))?;
    let (sink, state) = sink.and(State::open(args.output.as_deref(), memory))?;
    let mut summary = driver::run(driver::Parts {
        progress: progress::Progress::new(!args.no_progress, None),
        part: None,
        source,
        sink,
        state,
        ordered: true,
        checker,
        waits: args.waits(),
        drop_duplicates: false,
        known: None,
        options: RunOptions::default(),
        retried: None,
        is_fast: args.fast,
        stop: args.writing.stop.clone(),
        finds_typos: false,
    })?;
    estimate.checked = summary.total();
    estimate.classes = Class::ALL.map(|class| of_class(class, &summary, &estimate)).to_vec();
    summary.extent = Extent::Sample;
    summary.estimate = Some(estimate);
    summary.reading = Some(reading);
    Ok(summary)
}

/// Reads the list, and chooses the sample.
fn choose(
    source: &mut Source,
    mut state: State,
    estimate: &mut Estimate,
    smallest: &mut Smallest,
) -> Result<(), CleanError> {
    let mut seen = Seen::new(&state, Keyed::new()?, false);
    let mut row = Row::default();
    while source.next(&mut row)? {
        estimate.rows += 1;
        let Some(address) = &row.address else {
            estimate.without_address += 1;
            continue;
        };
        if seen.earlier(&mut state, address, estimate.rows)?.is_none() {
            estimate.distinct += 1;
            smallest.take(&address.canonical(), address.as_str());
        }
    }
    Ok(())
}

fn of_class(class: Class, summary: &Summary, estimate: &Estimate) -> ClassEstimate {
    let sampled = summary.reasons.of_class(class);
    let (share, low, high) = interval(sampled, estimate.checked, estimate.distinct);
    ClassEstimate { class, sampled, share, low, high }
}

/// The sample as CSV.
fn list<'a>(addresses: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut list = b"email\n".to_vec();
    for address in addresses {
        list.extend(format!("\"{}\"\n", address.replace('"', "\"\"")).bytes());
    }
    list
}

fn random() -> Result<u64, CleanError> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|e| CleanError::failed(format!("cannot get random bits: {e}")))?;
    // Short enough to be typed again.
    Ok(u32::from_le_bytes(bytes).into())
}
