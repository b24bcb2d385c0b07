//! The refusal of a page: the status, a message for the visitor, and a line for the log.

use checks::CheckError;
use http_core::Refusal;
use std::borrow::Cow;
use store::{HoldError, SettleError, StoreError};

/// A refusal of a page. Neither text contains an address, a key or a password.
#[derive(Clone)]
pub struct Problem {
    pub(crate) status: u16,
    pub(crate) message: Cow<'static, str>,
    pub(crate) headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The line for the log.
    pub(crate) inside: Option<String>,
}

impl Problem {
    /// A problem with a status and a message only.
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Problem {
        Problem { status, message: message.into(), headers: Vec::new(), inside: None }
    }

    /// 404: it does not exist, or it belongs to another account. The answer is the same for both.
    pub fn not_found() -> Problem {
        Problem::new(404, "This page does not exist, or no longer exists.")
    }

    /// 403: the session ended, or the password was replaced, while the request was waiting.
    pub fn outdated() -> Problem {
        Problem::new(
            403,
            "Your session has ended, or the password has changed meanwhile. Nothing was done. Sign in again.",
        )
    }

    /// 429: too many attempts; `wait_s` is the time to wait, in seconds.
    pub fn too_often(wait_s: u64) -> Problem {
        let message = format!("Too many attempts. Wait {wait_s} seconds, then try again.");
        Problem::new(429, message).header("retry-after", wait_s.to_string())
    }

    /// 500: an internal error.
    pub fn defect() -> Problem {
        Refusal::defect().into()
    }

    /// 503: the server cannot process the request now.
    pub fn unready() -> Problem {
        Problem::new(503, "The service cannot process this request now. Try again in a few seconds.")
            .header("retry-after", "5")
    }

    /// 503: it is not known whether the request was processed. The message of the API names what forms do not have.
    pub fn unknown() -> Problem {
        Problem::new(
            503,
            "It is not known whether this was done. Load the page again before you repeat it. A check of the same address within 24 \
             hours is charged once.",
        )
    }

    /// Adds a header to the answer.
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Problem {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a line for the log.
    pub fn inside(mut self, what: impl ToString) -> Problem {
        self.inside = Some(what.to_string());
        self
    }

    /// The message that the visitor reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The HTTP status of the page.
    pub fn status(&self) -> u16 {
        self.status
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let Refusal { body, headers, inside } = refusal;
        Problem { status: body.error.status(), message: body.message, headers, inside }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::Outdated => Problem::outdated(),
            StoreError::Unknown(_) => Problem::unknown().inside(error),
            error => Refusal::from(error).into(),
        }
    }
}

impl From<CheckError> for Problem {
    fn from(error: CheckError) -> Problem {
        match error {
            CheckError::Store(error) => error.into(),
            CheckError::Hold(error) => error.into(),
            CheckError::NotSettled { ref error, .. }
                if matches!(error, SettleError::Store(StoreError::Unknown(_))) =>
            {
                Problem::unknown().inside(error)
            }
            error => Refusal::from(error).into(),
        }
    }
}

impl From<HoldError> for Problem {
    fn from(error: HoldError) -> Problem {
        match error {
            HoldError::Store(error) => error.into(),
            // The account was deleted after this request was admitted.
            HoldError::UnknownAccount => Problem::outdated(),
            error => Refusal::from(error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::EntryId;

    #[test]
    fn a_form_is_not_answered_in_words_of_the_api() {
        let unknown = || StoreError::Unknown("x".to_owned());
        let (hold, error) = (EntryId::new(1, 1), SettleError::Store(unknown()));
        let problems: [Problem; 4] = [
            unknown().into(),
            HoldError::Store(unknown()).into(),
            CheckError::NotSettled { hold, error }.into(),
            CheckError::Hold(HoldError::UnknownAccount).into(),
        ];
        for (problem, status) in problems.iter().zip([503, 503, 503, 403]) {
            let said = problem.message();
            assert!(problem.status() == status && !said.contains("Key") && !said.contains("key"), "{said}");
        }
    }
}
