//! Downloads that are expensive for the server: of lists with a small upload and a long text, and of long results that
//! nobody reads.

use super::client::{HttpRequest, Lost};
use super::crowd::repeat;
use super::transport::ServerEndpoint;
use super::visitor::Visitor;
use crate::failure::{Context, Failure, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A download without a reader is restarted after this time: the server has cut it off by then.
const UNREAD_TIME: Duration = Duration::from_secs(22);
/// The pause between a refusal and the next attempt.
const PAUSE: Duration = Duration::from_millis(200);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The length of the beginning of an answer, up to its status.
const STATUS_BYTES: usize = "HTTP/1.1 200".len();
const STATUS_LIMIT: Duration = Duration::from_secs(90);
/// Rows of a bomb. A list needs at least one address. The other rows are no addresses, so they are checked at once, and
/// the list costs one credit.
const ROWS: [&str; 4] = [ADDRESS, "none", "no-one", "nobody"];
/// A mailbox that the scenario must have.
const ADDRESS: &str = "user-1@a-1.example";

/// The lengths of the lists.
#[derive(Clone, Copy)]
pub struct DownloadSize {
    /// The length of a bomb's blank lines, in MiB.
    pub bomb_mib: usize,
    /// The rows of a list whose result nobody reads. They must fill all buffers on the way.
    pub rows: usize,
}

/// Users with lists that are checked to the end.
pub struct Owners {
    people: Vec<Owner>,
    /// The content that a bomb's download must have.
    expected: Vec<u8>,
}

struct Owner {
    visitor: Visitor,
    bomb: String,
    long: String,
}

/// Numbers of simultaneous downloads.
#[derive(Clone, Copy)]
pub struct DownloadLoad {
    /// Downloads of bombs, which are read to the end.
    pub bombs: usize,
    /// Downloads of long results, which are not read.
    pub unread: usize,
}

/// Counts of downloads by their result.
#[derive(Default)]
pub struct DownloadCounts {
    /// Bombs that were complete and right.
    pub whole: AtomicU64,
    /// Downloads without a reader that were started.
    pub begun: AtomicU64,
    /// Answers with status 429 (the share of the account) or 503 (that of all).
    pub refused: AtomicU64,
    /// Bombs that the server ended because other downloads waited.
    pub cut_off: AtomicU64,
}

impl Owners {
    /// Signs users up. Each user uploads a bomb and a long list and has both checked.
    pub fn sign_up(server: &ServerEndpoint, count: usize, size: DownloadSize) -> Result<Owners, Failure> {
        let packed = |text: io::Result<Vec<u8>>| text.about("gzip");
        let (bomb, long) = (packed(bomb(size.bomb_mib))?, packed(long(size.rows))?);
        let mut people = Vec::new();
        for number in 0..count {
            let mut visitor = Visitor::sign_up(server, &format!("owner-{number}@people.example"))?;
            let bomb = visitor.checked_list("bomb.csv.gz", &bomb)?;
            let long = visitor.checked_list("long.csv.gz", &long)?;
            people.push(Owner { visitor, bomb, long });
        }
        let plain = format!("{}\n", ROWS.join("\n"));
        let first = people.first_mut().ok_or_else(|| Failure("no owners".into()))?;
        let path = first.visitor.checked_list("plain.csv", plain.as_bytes())?;
        let expected = first.visitor.look(&path)?.body;
        let text = String::from_utf8_lossy(&expected);
        let right = text.lines().count() == ROWS.len()
            && ROWS.iter().zip(text.lines()).all(|(row, line)| line.starts_with(row));
        ensure!(right, "the download of a plain list is wrong: {text:?}");
        Ok(Owners { people, expected })
    }

    /// Sends all further requests to this server, which has the same data.
    pub fn move_to(&mut self, server: &ServerEndpoint) {
        self.people.iter_mut().for_each(|owner| owner.visitor.moves(server));
    }

    /// Downloads until `ended` is set. A download that is refused or ends is started again.
    pub fn download(
        &self,
        server: &ServerEndpoint,
        load: DownloadLoad,
        ended: &AtomicBool,
        counts: &DownloadCounts,
    ) -> Result<(), Failure> {
        repeat(load.bombs + load.unread, ended, |number| match number.checked_sub(load.bombs) {
            None => self.read_bomb(&self.people[number % self.people.len()], counts),
            Some(number) => leave_unread(server, &self.people[number % self.people.len()], ended, counts),
        })
        .map(drop)
    }

    fn read_bomb(&self, owner: &Owner, counts: &DownloadCounts) -> Result<(), Failure> {
        match owner.visitor.client().send(&HttpRequest::get(owner.bomb.as_str())) {
            Ok(reply) if reply.status == 200 && reply.body == self.expected => {
                counts.whole.fetch_add(1, Ordering::Relaxed);
            }
            Ok(reply) if matches!(reply.status, 429 | 503) => {
                counts.refused.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
            Ok(reply) => return Err(Failure(format!("the download of a bomb: {reply}"))),
            Err(Lost::NoAnswer(_)) => {
                counts.cut_off.fetch_add(1, Ordering::Relaxed);
            }
            Err(Lost::NotSent) => return Err(Failure("the download of a bomb: no connection".into())),
        }
        Ok(())
    }
}

fn leave_unread(
    server: &ServerEndpoint,
    owner: &Owner,
    ended: &AtomicBool,
    counts: &DownloadCounts,
) -> Result<(), Failure> {
    let request = owner.visitor.request(&owner.long);
    let mut stream = server.connect(CONNECT_LIMIT).about("a download")?;
    let status = stream.tcp().set_read_timeout(Some(STATUS_LIMIT)).and_then(|()| {
        stream.write_all(&request)?;
        let mut status = [0; STATUS_BYTES];
        stream.read_exact(&mut status).map(|()| String::from_utf8_lossy(&status).into_owned())
    });
    match status.about("a download: no answer")?.as_str() {
        "HTTP/1.1 200" => {
            counts.begun.fetch_add(1, Ordering::Relaxed);
            let until = Instant::now() + UNREAD_TIME;
            while Instant::now() < until && !ended.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
            }
        }
        "HTTP/1.1 429" | "HTTP/1.1 503" => {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(PAUSE);
        }
        other => return Err(Failure(format!("a download: {other}"))),
    }
    Ok(())
}

/// The rows, followed by this many MiB of blank lines. The list has no header line. In CSV, blank lines belong to a row,
/// whose length is limited.
fn bomb(mib: usize) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    writeln!(packed, "{}", ROWS.join("\n"))?;
    let blank = vec![b'\n'; 1 << 20];
    for _ in 0..mib {
        packed.write_all(&blank)?;
    }
    packed.finish()
}

fn long(rows: usize) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    writeln!(packed, "email\n{ADDRESS}")?;
    for row in 0..rows {
        writeln!(packed, "no address is in row {row}")?;
    }
    packed.finish()
}
