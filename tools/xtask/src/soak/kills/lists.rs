//! A list of the dashboard from its upload to its download, during the kills.

use super::addresses;
use super::client::{HttpRequest, Lost, attribute};
use super::people::{Hands, Next, look};
use super::programs::{BATCH_WAIT, expect};
use super::records::{Life, Purchase, Rule};
use crate::soak::judge::{self, Reasons};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// How much longer than the wait of its rows a list may take: restarts, and a busy machine.
const SLACK: Duration = Duration::from_secs(120);
/// The pause between two requests for the page of a list in progress.
const LOOK: Duration = Duration::from_millis(20);

/// The stage of one list from its upload to its deletion.
pub struct ListFlow {
    name: String,
    content: String,
    verdicts: Vec<Reasons>,
    purchase: Purchase,
    stage: ListStage,
    /// `/lists/ID`, if it is known.
    path: String,
    /// How many uploads were sent and had no answer.
    doubts: usize,
    /// The time at which its start was acknowledged.
    started: Option<Instant>,
    downloaded: Option<(Vec<u8>, u32)>,
    is_deleted: bool,
}

enum ListStage {
    Upload,
    Ready,
    Running,
    Download,
    Delete,
}

impl ListFlow {
    /// A list of 10 to 40 rows; every fifth row has no address. A random bit decides whether it is deleted at the end.
    pub fn new(life: &Life<'_>, hands: &Hands, number: u64, random: &mut fastrand::Rng) -> ListFlow {
        let (mut content, mut verdicts) = ("id,email\n".to_owned(), Vec::new());
        for row in 0..random.u64(10..=40) {
            let email = if row % 5 == 4 { "none".to_owned() } else { addresses::live(number + row) };
            verdicts.push(judge::reasons(&life.shared.scenario, &email));
            let _ = writeln!(content, "{row},{email}");
        }
        let credits = verdicts.iter().enumerate().filter(|(row, _)| row % 5 != 4).count() as u64;
        ListFlow {
            name: format!("list-{number}.csv"),
            content,
            verdicts,
            purchase: Purchase::lasting(&hands.account, credits),
            stage: ListStage::Upload,
            path: String::new(),
            doubts: 0,
            started: None,
            downloaded: None,
            is_deleted: random.bool(),
        }
    }

    /// Sends the next request of its stage.
    pub fn step(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        match self.stage {
            ListStage::Upload => self.upload(life, hands),
            ListStage::Ready => self.start(life, hands),
            ListStage::Running => self.wait(life, hands),
            ListStage::Download => return self.download(life, hands),
            ListStage::Delete => return self.delete(life, hands),
        }
        Next::More
    }

    fn upload(&mut self, life: &Life<'_>, hands: &mut Hands) {
        if self.doubts > 0 && !self.look_for_it(life, hands) {
            return;
        }
        let fields = [("csrf", hands.csrf.as_str()), ("column", "")];
        let request = HttpRequest::upload("/lists", &fields, (&self.name, self.content.as_bytes()));
        match life.ask(&mut hands.browser, "upload", &self.name, &request) {
            Ok(reply) if reply.status == 303 => {
                self.path = reply.header("location").unwrap_or_default().to_owned();
                self.stage = ListStage::Ready;
                life.shared.verified("uploads", 1);
            }
            Err(Lost::NotSent) => {}
            other => {
                self.doubts += 1;
                expect(life, "upload", &other, &[503]);
            }
        }
    }

    /// Checks whether an attempt without an answer has created a list. Returns whether to upload it again.
    fn look_for_it(&mut self, life: &Life<'_>, hands: &mut Hands) -> bool {
        let Some(page) = look(life, &mut hands.browser, "/lists") else { return false };
        let text = page.text();
        let row = |row: &&str| row.contains(&format!(">{}<", self.name));
        let rows: Vec<&str> = text.split("<tr>").filter(row).collect();
        if rows.len() > self.doubts {
            let fault = format!("{} lists of {} uploads of {}", rows.len(), self.doubts, self.name);
            life.shared.fault(Rule::Lists, fault);
        }
        let Some(row) = rows.first() else { return true };
        // The list may still appear, if the server has not ended yet.
        if !row.contains(">uploading<") {
            let link = row.split("<a").nth(1).and_then(|tag| tag.split('>').next());
            self.path = link.and_then(|tag| attribute(tag, "href")).unwrap_or_default();
            self.stage = ListStage::Ready;
        }
        false
    }

    fn start(&mut self, life: &Life<'_>, hands: &mut Hands) {
        let Some(text) = self.page(life, hands) else { return };
        if text.contains("being read") {
            return std::thread::sleep(LOOK);
        }
        if !text.contains(&format!("{}/start", self.path)) {
            life.shared.fault(Rule::Lists, format!("{} cannot be started: {text}", self.name));
            return;
        }
        self.purchase.asks();
        let request = HttpRequest::form(format!("{}/start", self.path), &[("csrf", &hands.csrf)]);
        match life.ask(&mut hands.browser, "list start", &self.name, &request) {
            Ok(reply) if reply.status == 303 => {
                self.started = Some(Instant::now());
                self.stage = ListStage::Running;
            }
            Err(Lost::NotSent) => {}
            other => {
                self.purchase.unknown();
                self.stage = ListStage::Running;
                expect(life, "list start", &other, &[503]);
            }
        }
    }

    fn wait(&mut self, life: &Life<'_>, hands: &mut Hands) {
        let Some(text) = self.page(life, hands) else { return };
        if text.contains("Download result") {
            self.purchase.paid();
            self.purchase.ended();
            self.stage = ListStage::Download;
        } else if text.contains(&format!("{}/start", self.path)) {
            if self.started.is_some() {
                life.shared.fault(Rule::Lists, format!("{} was started: {text}", self.name));
            }
            self.stage = ListStage::Ready;
        } else if !text.contains("addresses checked") {
            life.shared.fault(Rule::Lists, format!("{} is not at work: {text}", self.name));
        } else {
            let began = *self.started.get_or_insert_with(Instant::now);
            if began.elapsed() > BATCH_WAIT + SLACK {
                life.shared.fault(
                    Rule::Holds,
                    format!("{} is at work for {} s", self.name, began.elapsed().as_secs()),
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The page of the list, if the server can show it now.
    fn page(&self, life: &Life<'_>, hands: &mut Hands) -> Option<String> {
        match life.ask(&mut hands.browser, "list", &self.name, &HttpRequest::get(self.path.as_str())) {
            Ok(page) if page.status == 200 => Some(page.text()),
            Ok(page) if page.status == 404 => {
                life.shared.fault(Rule::Lists, format!("{} is gone", self.name));
                None
            }
            other => {
                expect(life, "list", &other, &[503]);
                None
            }
        }
    }

    /// Downloads the list twice, the second time in another life of the server.
    fn download(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        let request = HttpRequest::get(format!("{}/download", self.path));
        if !life.finishing
            && self.downloaded.as_ref().is_some_and(|(_, life_before)| *life_before == life.number)
        {
            std::thread::sleep(LOOK);
            look(life, &mut hands.browser, "/usage");
            return Next::More;
        }
        match life.ask(&mut hands.browser, "download", &self.name, &request) {
            Ok(reply) if reply.status == 200 => match &self.downloaded {
                None => {
                    let outcome = judge::list(&self.name, &self.content, &self.verdicts, &reply.text());
                    life.shared.judge(Rule::Lists, "lists complete", outcome);
                    self.downloaded = Some((reply.body, life.number));
                }
                Some((first, _)) => {
                    life.shared.judge(
                        Rule::Replays,
                        "downloads again",
                        judge::same(&self.name, first, &reply.body),
                    );
                    if !self.is_deleted {
                        return Next::Done;
                    }
                    self.stage = ListStage::Delete;
                }
            },
            other => expect(life, "download", &other, &[503]),
        }
        Next::More
    }

    fn delete(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        let request = HttpRequest::form(format!("{}/delete", self.path), &[("csrf", &hands.csrf)]);
        match life.ask(&mut hands.browser, "list delete", &self.name, &request) {
            // 404: an attempt without an answer has deleted it.
            Ok(reply) if matches!(reply.status, 303 | 404) => {}
            other => {
                expect(life, "list delete", &other, &[503]);
                return Next::More;
            }
        }
        match life.ask(&mut hands.browser, "deleted list", &self.name, &HttpRequest::get(self.path.as_str()))
        {
            Ok(reply) if reply.status == 200 => {
                life.shared.fault(Rule::Lists, format!("{} was deleted and is there", self.name));
            }
            other => expect(life, "deleted list", &other, &[404, 503]),
        }
        Next::Done
    }
}
