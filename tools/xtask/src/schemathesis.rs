//! `cargo xtask schemathesis`: requests generated from the served description, and a check of every answer against it.
//!
//! mailnet and `mailprobe serve` run as processes. schemathesis (<https://schemathesis.readthedocs.io>), which
//! `.ci/schemathesis` installs, sends requests with a live key. The task fails if a check of schemathesis fails, or if
//! too few positive examples of an operation were answered 2xx: a run that is refused everywhere proves nothing.

use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::interop::report::{self, Tally};
use crate::soak::api::Api;
use crate::soak::client::{HttpReply, HttpRequest};
use crate::soak::world::CampaignFolder;
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The options of `cargo xtask schemathesis`.
#[derive(Args)]
pub struct SchemathesisOptions {
    /// Number of examples for each operation.
    #[arg(long, value_name = "N", default_value_t = 300)]
    examples: u32,
    /// Seed of the examples.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Test only the operation with this operationId.
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Folder in which `.ci/schemathesis` has installed schemathesis.
    #[arg(long, value_name = "PATH", default_value = "target/schemathesis")]
    venv: PathBuf,
    /// Use `mailprobe` and `mailnet` from this folder and do not build them.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
}

const SCENARIO: &str = include_str!("../../mailnet/scenarios/reasons.toml");
const CONFIG: &str = include_str!("../schemathesis/schemathesis.toml");
const HOOKS: &str = include_str!("../schemathesis/hooks.py");
const REQUIREMENTS: &str = include_str!("../schemathesis/requirements.txt");

/// More credits than all examples together can cost.
const CREDITS: u64 = 1_000_000_000;
/// How many batches exist from the start, for examples that poll.
const BATCHES: usize = 20;
/// How many webhooks exist from the start. An account has at most ten; `hooks.py` needs room for seven.
const WEBHOOKS: usize = 3;
/// How many completed lists exist from the start. An account has at most 50; `hooks.py` needs room for seven.
const LISTS: usize = 20;
/// The limit of lists in MiB which the description states.
const LIST_MIB: &str = "4096";
/// The number of operations in the description.
const OPERATIONS: usize = 25;
/// This operation has neither an input nor a key to vary.
const ALWAYS_THE_SAME: &str = "GET /v1/openapi.json";
const VERSION_LIMIT: Duration = Duration::from_secs(60);
const RUN_LIMIT: Duration = Duration::from_secs(1200);
/// The time limit for each state of a list.
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// The time between two looks at a list.
const LOOK: Duration = Duration::from_millis(20);

/// Runs schemathesis, and counts the checks that passed.
pub fn run(options: &SchemathesisOptions) -> Result<Tally, Failure> {
    let program = installed(&options.venv)?;
    let world = CampaignFolder::of(options.bin_dir.as_deref(), false)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let mut serve = world.serve(&mailnet, &["--dashboard-upload-mib", LIST_MIB])?;
    let key = world.unlimited("schemathesis", CREDITS)?;
    prepare(&world, Api::new(serve.address, &key))?;

    let counts = world.path("counts.json");
    let mut command = Command::new(program);
    command.current_dir(world.path("")).env("MAILPROBE_KEY", &key).env("MAILPROBE_COUNTS", &counts);
    command.env("MAILPROBE_URL", format!("http://{}", serve.address));
    command.args(["--config-file", "schemathesis.toml", "run"]);
    command.args(["openapi.json", "--url", &format!("http://{}", serve.address)]);
    command.args(["--max-examples", &options.examples.to_string(), "--seed", &options.seed.to_string()]);
    if let Some(id) = &options.only {
        // Links lead from one operation to another.
        command.args(["--include-operation-id", id, "--phases", "examples,coverage,fuzzing"]);
    }
    let finished = process::run(command, "", &world.path(""), RUN_LIMIT)?;
    report::line(&format!("{}{}", finished.stdout, finished.stderr));

    let mut tally = Tally::default();
    tally.check(
        "every check of schemathesis",
        report::outcome(finished.status.success(), finished.status.to_string()),
    );
    // An exception in a hook ends a scenario, and the exit status stays 0.
    let has_errors = finished.stdout.contains(" errored");
    tally.check(
        "exceptions in hooks.py",
        report::outcome(!has_errors, if has_errors { "some" } else { "none" }.into()),
    );
    let counts = fs::read_to_string(&counts).about("no counts")?;
    shares(&mut tally, &counts, options)?;
    serve.running()?;
    tally.check("no panic", report::outcome(!serve.log()?.contains("panicked"), "of the server".into()));
    serve.stop()?;
    mailnet.stop()?;
    Ok(tally)
}

/// The program in its virtual environment, if it is of the pinned version.
fn installed(venv: &Path) -> Result<PathBuf, Failure> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let program = root.join(venv).join("bin/schemathesis");
    let pinned = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("schemathesis=="));
    let pinned = pinned.ok_or_else(|| Failure("requirements.txt pins no schemathesis".into()))?;
    let missing = |why: &str| Failure(format!("{}: {why}; run .ci/schemathesis", program.display()));
    if !program.is_file() {
        return Err(missing("not there"));
    }
    let mut command = Command::new(&program);
    command.arg("--version");
    let said =
        process::run(command, "", &std::env::temp_dir(), VERSION_LIMIT)?.success("schemathesis --version")?;
    if said.split_whitespace().last() != Some(pinned) {
        return Err(missing(&format!("it is not {pinned} but {}", said.trim())));
    }
    Ok(program)
}

/// Writes the configuration, and the ids of batches, webhooks and completed lists. Writes the description as a file, because
/// schemathesis does not test the operation at the URL of the description.
fn prepare(world: &CampaignFolder, api: Api<'_>) -> Result<(), Failure> {
    let write = |name: &str, text: &str| fs::write(world.path(name), text).about(name);
    write("schemathesis.toml", CONFIG)?;
    write("hooks.py", HOOKS)?;
    write("openapi.json", &api.get("/v1/openapi.json")?.text())?;
    let dictionary = |name: &str, count: usize, make: &dyn Fn(usize) -> Result<String, Failure>| {
        let ids = (0..count)
            .map(|number| Ok(format!("\"{}\"\n", make(number)?)))
            .collect::<Result<String, Failure>>()?;
        write(name, &ids)
    };
    let made = |answer: HttpReply, status: u16, field: &str| match answer.status {
        found if found == status => Ok(answer.word(field)),
        found => Err(Failure(format!("the request for a {field} was answered {found}"))),
    };
    dictionary("batches.dict", BATCHES, &|number| {
        let emails = [format!("user-{number}@ok.example"), "nobody@ok.example".to_owned()];
        made(api.submit("", &emails)?, 202, "batch_id")
    })?;
    dictionary("webhooks.dict", WEBHOOKS, &|number| {
        let body = json!({ "url": format!("https://{number}.hooks.example/") });
        made(api.post("/v1/webhooks", &body)?, 201, "webhook_id")
    })?;
    dictionary("lists.dict", LISTS, &|number| completed_list(api, number))
}

/// Uploads a list, checks it, and returns its id.
fn completed_list(api: Api<'_>, number: usize) -> Result<String, Failure> {
    let content = format!("email\nuser-{number}@ok.example\nnobody@ok.example\nnone\n");
    let call = |method: &'static str, path: &str, content: &str, status: u16| {
        let request = HttpRequest::new(method, path, content).header("Content-Type", "text/csv");
        match api.send(request)? {
            answer if answer.status == status => Ok(answer),
            answer => Err(Failure(format!("{method} {path} was answered {}", answer.status))),
        }
    };
    let wait = |path: &str, status: &str| {
        let began = Instant::now();
        while call("GET", path, "", 200)?.word("status") != status {
            if began.elapsed() > LIST_LIMIT {
                return Err(Failure(format!("a list did not become {status}")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    };
    let id = call("POST", "/v1/lists", &content, 201)?.word("list_id");
    let path = format!("/v1/lists/{id}");
    wait(&path, "ready")?;
    call("POST", &format!("{path}/start"), "", 202)?;
    wait(&path, "completed")?;
    Ok(id)
}

/// Checks that every operation was called often enough, and enough calls were answered 2xx.
fn shares(tally: &mut Tally, counts: &str, options: &SchemathesisOptions) -> Result<(), Failure> {
    let counts: Value = serde_json::from_str(counts).about("the counts are no JSON")?;
    let operations = counts.as_object().ok_or_else(|| Failure("the counts are no object".into()))?;
    for (name, statuses) in operations {
        let sum = |prefix: &str| -> u64 {
            let statuses = statuses.as_object().into_iter().flatten();
            statuses.filter(|(key, _)| key.starts_with(prefix)).filter_map(|(_, count)| count.as_u64()).sum()
        };
        let (positive, good, all) = (sum("positive "), sum("positive 2"), sum(""));
        let said =
            format!("{good} of {positive} positive examples were answered 2xx; {all} requests: {statuses}");
        let enough = all >= u64::from(options.examples) || name == ALWAYS_THE_SAME;
        tally.check(name, report::outcome(enough && good > 0 && good * 2 >= positive, said));
    }
    let expected = if options.only.is_some() { 1 } else { OPERATIONS };
    tally.check(
        "operations",
        report::outcome(operations.len() == expected, format!("{} were asked", operations.len())),
    );
    Ok(())
}
