//! A list of the dashboard from its upload to its download, during the kills.

use super::addresses;
use super::client::{HttpRequest, Lost, attribute};
use super::gate::ClientResult;
use super::people::Person;
use super::programs::BATCH_WAIT;
use super::records::{Purchase, Rule};
use crate::soak::judge::{self, Reasons};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// How much longer than the wait of its rows a list may take: restarts, and a busy machine.
const SLACK: Duration = Duration::from_secs(120);
/// The pause between two requests for the page of a list in progress.
const LOOK: Duration = Duration::from_millis(20);

/// A list that is uploaded.
struct UploadedList {
    name: String,
    content: String,
    verdicts: Vec<Reasons>,
    /// `/lists/ID`.
    path: String,
}

impl Person<'_> {
    /// Uploads a list of 10 to 40 rows, of which every fifth has no address, has it checked, and downloads it twice. A random bit
    /// decides whether it is deleted at the end.
    pub fn list(&mut self) -> ClientResult {
        let number = self.records.numbers(100);
        let (mut content, mut verdicts) = ("id,email\n".to_owned(), Vec::new());
        for row in 0..self.random.u64(10..=40) {
            let email = if row % 5 == 4 { "none".to_owned() } else { addresses::live(number + row) };
            verdicts.push(judge::reasons(&self.records.scenario, &email));
            let _ = writeln!(content, "{row},{email}");
        }
        let (name, path) = (format!("list-{number}.csv"), String::new());
        let mut list = UploadedList { name, content, verdicts, path };
        list.path = self.upload(&list)?;
        self.check(&list)?;
        self.download(&list)?;
        if self.random.bool() { self.delete(&list) } else { Ok(()) }
    }

    /// Uploads a list, and returns its path.
    fn upload(&mut self, list: &UploadedList) -> ClientResult<String> {
        let fields = [("csrf", self.csrf.as_str()), ("column", "")];
        let request = HttpRequest::upload("/lists", &fields, (&list.name, list.content.as_bytes()));
        let mut doubts = 0;
        loop {
            match self.browser.ask("upload", &list.name, &request)? {
                Ok(reply) if reply.status == 303 => {
                    self.records.verified("uploads", 1);
                    return Ok(reply.header("location").unwrap_or_default().to_owned());
                }
                Err(Lost::NotSent) => {}
                other => {
                    doubts += 1;
                    self.records.expect("upload", &other, &[503])?;
                }
            }
            if doubts > 0
                && let Some(path) = self.find_upload(list, doubts)?
            {
                return Ok(path);
            }
        }
    }

    /// The path of the list, if an attempt without an answer has created it.
    fn find_upload(&mut self, list: &UploadedList, doubts: usize) -> ClientResult<Option<String>> {
        loop {
            let text = self.look("/lists")?.text();
            let is_it = |row: &&str| row.contains(&format!(">{}<", list.name));
            let rows: Vec<&str> = text.split("<tr>").filter(is_it).collect();
            if rows.len() > doubts {
                let fault = format!("{} lists of {doubts} uploads of {}", rows.len(), list.name);
                return Err(self.records.stop(Rule::Lists, fault));
            }
            let Some(row) = rows.first() else { return Ok(None) };
            // The list may still appear, if the server has not ended yet.
            if !row.contains(">uploading<") {
                let link = row.split("<a").nth(1).and_then(|tag| tag.split('>').next());
                return Ok(link.and_then(|tag| attribute(tag, "href")));
            }
        }
    }

    /// Starts the check of a list, and waits for its end.
    fn check(&mut self, list: &UploadedList) -> ClientResult {
        let credits = list.verdicts.iter().enumerate().filter(|(row, _)| row % 5 != 4).count() as u64;
        let mut purchase = Purchase::lasting(&self.account, credits);
        let start = format!("{}/start", list.path);
        let form = HttpRequest::form(start.as_str(), &[("csrf", &self.csrf)]);
        // Whether its start may have been executed, and since when that is certain.
        let (mut is_sent, mut started) = (false, None);
        let records = self.records;
        loop {
            let text = self.list_page(list)?;
            let fault = |rule, what: &str| Err(records.stop(rule, format!("{} {what}: {text}", list.name)));
            if is_sent && text.contains("Download result") {
                purchase.paid();
                purchase.ended();
                return Ok(());
            } else if text.contains(&start) {
                if started.is_some() {
                    return fault(Rule::Lists, "was started");
                }
                purchase.asks();
                match self.browser.ask("list start", &list.name, &form)? {
                    Ok(reply) if reply.status == 303 => (is_sent, started) = (true, Some(Instant::now())),
                    Err(Lost::NotSent) => {}
                    other => {
                        is_sent = true;
                        purchase.unknown();
                        records.expect("list start", &other, &[503])?;
                    }
                }
            } else if is_sent && text.contains("addresses checked") {
                let began = *started.get_or_insert_with(Instant::now);
                if began.elapsed() > BATCH_WAIT + SLACK {
                    return fault(Rule::Holds, "is at work for too long");
                }
                std::thread::sleep(LOOK);
            } else if !is_sent && text.contains("being read") {
                std::thread::sleep(LOOK);
            } else {
                return fault(Rule::Lists, "is neither ready nor at work");
            }
        }
    }

    fn list_page(&mut self, list: &UploadedList) -> ClientResult<String> {
        let request = HttpRequest::get(list.path.as_str());
        let (page, _) = self.browser.insist("list", &list.name, &request, &[200, 404])?;
        if page.status == 404 {
            return Err(self.records.stop(Rule::Lists, format!("{} is gone", list.name)));
        }
        Ok(page.text())
    }

    /// Downloads the list twice, the second time in another life of the server.
    fn download(&mut self, list: &UploadedList) -> ClientResult {
        let records = self.records;
        let request = HttpRequest::get(format!("{}/download", list.path));
        let download = |person: &mut Self| {
            let downloaded = person.browser.insist("download", &list.name, &request, &[200])?;
            Ok((downloaded.0, records.gate.now().life))
        };
        let (first, life) = download(self)?;
        let outcome = judge::list(&list.name, &list.content, &list.verdicts, &first.text());
        records.judge(Rule::Lists, "lists complete", outcome);
        while records.gate.now().life == life && !records.gate.now().is_finishing() {
            std::thread::sleep(LOOK);
            self.look("/usage")?;
        }
        let (again, _) = download(self)?;
        records.judge(Rule::Replays, "downloads again", judge::same(&list.name, &first.body, &again.body));
        Ok(())
    }

    fn delete(&mut self, list: &UploadedList) -> ClientResult {
        let form = HttpRequest::form(format!("{}/delete", list.path), &[("csrf", &self.csrf)]);
        // 404: an attempt without an answer has deleted it.
        self.browser.insist("list delete", &list.name, &form, &[303, 404])?;
        let request = HttpRequest::get(list.path.as_str());
        let (reply, _) = self.browser.insist("deleted list", &list.name, &request, &[200, 404])?;
        if reply.status == 200 {
            return Err(self.records.stop(Rule::Lists, format!("{} was deleted and is there", list.name)));
        }
        Ok(())
    }
}
