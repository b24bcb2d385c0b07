//! The examples in each command's help. A test reads every line as a command line.

/// For the program.
pub(super) const MAILPROBE: &str = "\
Examples:
  mailprobe check --trace someone@example.com
  mailprobe clean LIST.csv -o OUT.csv
  mailprobe serve --data data

Exit codes: 0 for success, 1 for a failure, 2 for wrong usage, 3 for warnings of the doctor";

/// For `serve`.
pub(super) const SERVE: &str = "\
Examples:
  mailprobe serve --data data
  mailprobe serve --config /etc/mailprobe/mailprobe.toml
  mailprobe serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem";

/// For `check`.
pub(super) const CHECK: &str = "\
Examples:
  mailprobe check someone@example.com
  mailprobe check --trace someone@example.com
  mailprobe check --fast --json a@example.com b@example.com
  grep '@example.com' LIST.txt | mailprobe check -";

/// For `clean`.
pub(super) const CLEAN: &str = "\
Examples:
  mailprobe clean LIST.csv -o OUT.csv
  mailprobe clean LIST.csv -o OUT.csv --resume
  mailprobe clean LIST.csv -o OUT.csv --max-wait 15m --report REPORT.html
  mailprobe clean LIST.xlsx -o OUT.xlsx --only deliverable --drop-duplicates
  mailprobe clean LIST.csv -o NEW.csv --known OLD.csv
  zcat LIST.csv.gz | mailprobe clean - --fast > OUT.csv";

/// For `learn`.
pub(super) const LEARN: &str = "\
Examples:
  mailprobe learn bounces.mbox
  mailprobe learn bounce.eml export.csv.gz
  mailprobe learn --list
  mailprobe learn --forget someone@example.com";

/// For `classify`.
pub(super) const CLASSIFY: &str = "\
Example:
  mailprobe classify < REPLIES.jsonl > CLASSES.jsonl";

/// For `account`.
pub(super) const ACCOUNT: &str = "\
Examples:
  mailprobe account create shop --plan starter --credits 50,000
  mailprobe account create shop --email shop@example.com
  mailprobe account show shop
  mailprobe account grant shop 50000 --note invoice-17";

/// For `key`.
pub(super) const KEY: &str = "\
Examples:
  mailprobe key create shop --label website
  mailprobe key create shop --test
  mailprobe key list shop";

/// For `backup`.
pub(super) const BACKUP: &str = "\
Example:
  mailprobe backup --data data mailprobe.backup";

/// For `restore`.
pub(super) const RESTORE: &str = "\
Examples:
  mailprobe restore --data new-data mailprobe.backup
  mailprobe restore --data new-data mailprobe.backup --store-url postgres://mailprobe@db/mailprobe --bundle keys.bundle";

/// For `cluster`.
pub(super) const CLUSTER: &str = "\
Examples:
  mailprobe cluster init --store-url postgres://mailprobe@db/mailprobe --bundle keys.bundle --data data
  mailprobe cluster join keys.bundle --store-url postgres://mailprobe@db/mailprobe --data data
  mailprobe cluster status --config /etc/mailprobe/mailprobe.toml
  mailprobe cluster upgrade --config /etc/mailprobe/mailprobe.toml";

/// For `compact`.
pub(super) const COMPACT: &str = "\
Example:
  mailprobe compact --data data";

/// For `accept-keys`.
pub(super) const ACCEPT_KEYS: &str = "\
Example:
  mailprobe accept-keys --data data";

/// For `doctor`.
pub(super) const DOCTOR: &str = "\
Examples:
  mailprobe doctor
  mailprobe doctor --config /etc/mailprobe/mailprobe.toml
  mailprobe doctor --json | jq '.findings[] | select(.severity != \"ok\")'";

/// For `metrics`.
pub(super) const METRICS: &str = "\
Example:
  mailprobe metrics --data data | grep mailprobe_checks";

/// For `config`.
pub(super) const CONFIG: &str = "\
Examples:
  mailprobe config --default > mailprobe.toml
  mailprobe config --config mailprobe.toml";

/// For `openapi`.
pub(super) const OPENAPI: &str = "\
Example:
  mailprobe openapi --public-url https://api.example.com > openapi.json";

/// For `completions`.
pub(super) const COMPLETIONS: &str = "\
Example:
  mailprobe completions bash > /etc/bash_completion.d/mailprobe";
