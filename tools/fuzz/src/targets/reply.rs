//! Replies: limited, printable, and independent of the pieces; then the values that are read from them.

use crate::grammar::Grammar;
use crate::input::{cut, hash, one};
use engine_proto::limits::{REPLY_BYTES_MAX, REPLY_LINES_MAX, STATUS_SUBJECT_MAX};
use engine_proto::smtp::ehlo::Extensions;
use engine_proto::smtp::reply::{Reply, ReplyError, ReplyParser};
use engine_proto::smtp::status::EnhancedCode;
use engine_proto::verdict::{Reason, ReplyView, Stage, classify, reason_at_rcpt};
use fastrand::Rng;
use std::sync::LazyLock;

const STAGES: [Stage; 5] = [Stage::Banner, Stage::Ehlo, Stage::Mail, Stage::Rcpt, Stage::Control];

/// The grammar of replies. The servers of the dialog use it too.
pub static GRAMMAR: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::of(include_str!("../../grammars/reply.txt")));

pub fn grow(random: &mut Rng) -> Vec<u8> {
    GRAMMAR.grow("start", random).into_bytes()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let whole = read([input].into_iter());
    let pieces = cut(input);
    if read(pieces.iter().copied()) != whole {
        return Err(format!("{} pieces make another read", pieces.len()));
    }
    whole.replies.iter().try_for_each(holds)
}

/// All results of a stream.
#[derive(PartialEq, Eq)]
struct ReadReplies {
    replies: Vec<Reply>,
    error: Option<ReplyError>,
    empty: bool,
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> ReadReplies {
    let mut parser = ReplyParser::default();
    let mut read = ReadReplies { replies: Vec::new(), error: None, empty: true };
    for piece in pieces {
        parser.feed(piece);
        loop {
            match parser.next() {
                Ok(Some(reply)) => read.replies.push(reply),
                Ok(None) => break,
                Err(error) => {
                    read.error = Some(error);
                    break;
                }
            }
        }
    }
    // After an error the session is over, and the remaining bytes mean nothing.
    read.empty = read.error.is_some() || parser.is_empty();
    read
}

/// The rules for every reply.
fn holds(reply: &Reply) -> Result<(), String> {
    let text = reply.text();
    // A byte that is not UTF-8 becomes a character of three bytes.
    if text.len() > 4 * REPLY_BYTES_MAX || reply.lines().count() > REPLY_LINES_MAX {
        return Err(format!("{} octets in {} lines", text.len(), reply.lines().count()));
    }
    if !(200..600).contains(&reply.code()) {
        return Err(format!("code {}", reply.code()));
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Err("a control character would reach a terminal".into());
    }
    if let Some(status) = EnhancedCode::find(reply)
        && (u16::from(status.class) != reply.code() / 100
            || status.subject > STATUS_SUBJECT_MAX
            || status.detail > 999)
    {
        return Err(format!("{status} in a {}", reply.code()));
    }
    let extensions = Extensions::read(reply);
    if extensions.recipients_max == Some(0) || extensions.transactions_max == Some(0) {
        return Err("a limit of 0".into());
    }
    verdict_holds(reply)
}

/// Checks that only a permanent refusal proves that a mailbox does not exist. Each reply selects one stage and one
/// host, since testing all 15 pairs made the target many times slower.
fn verdict_holds(reply: &Reply) -> Result<(), String> {
    let mut random = Rng::with_seed(hash(reply.text().as_bytes()));
    let stage = STAGES[random.usize(..STAGES.len())];
    let mx = one(&mut random, &["", "mx.example.com", "aspmx.l.google.com"]);
    let classification = classify(&ReplyView::of_unknown(stage, mx, reply));
    let reason = reason_at_rcpt(&classification);
    if reason == Reason::MailboxNotFound && !(reply.is_permanent() && classification.permanent) {
        return Err(format!("{} says there is no mailbox, by {}", reply.code(), classification.rule));
    }
    Ok(())
}

/// Whether the input begins with a reply.
#[cfg(test)]
pub fn passes(input: &[u8]) -> bool {
    !read([input].into_iter()).replies.is_empty()
}
