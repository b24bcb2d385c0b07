//! The mix of requests: the endpoints with their shares.

use crate::random::Random;
use serde::Serialize;

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// `POST /v1/verify` with `mode` fast.
    Fast,
    /// `POST /v1/verify`.
    Full,
    /// `POST /v1/verify/batch`.
    Batch,
    /// `GET /v1/verify/batch/{batch_id}`, of a batch from this run.
    Poll,
    /// `GET /v1/account`.
    Account,
}

/// The number of endpoints.
pub const KINDS: usize = 5;

impl Endpoint {
    /// All endpoints in the order of reports.
    pub const ALL: [Endpoint; KINDS] =
        [Endpoint::Fast, Endpoint::Full, Endpoint::Batch, Endpoint::Poll, Endpoint::Account];

    /// The name in `--mix`, `--objective` and the reports.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Fast => "fast",
            Endpoint::Full => "full",
            Endpoint::Batch => "batch",
            Endpoint::Poll => "poll",
            Endpoint::Account => "account",
        }
    }

    /// Its requests in messages.
    pub fn plural(self) -> &'static str {
        match self {
            Endpoint::Fast => "fast checks",
            Endpoint::Full => "full checks",
            Endpoint::Batch => "batches",
            Endpoint::Poll => "polls of a batch",
            Endpoint::Account => "requests of the account",
        }
    }

    /// The endpoint with this name.
    pub fn named(name: &str) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|endpoint| endpoint.name() == name)
    }
}

/// Shares of the endpoints; their sum is arbitrary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    weights: [u32; KINDS],
}

/// The largest weight: it is a share, not a count.
const WEIGHT_MAX: u32 = 1_000_000;

impl Mix {
    /// A mix with only one endpoint.
    pub fn only(endpoint: Endpoint) -> Mix {
        let mut weights = [0; KINDS];
        weights[endpoint as usize] = 1;
        Mix { weights }
    }

    /// Whether the endpoint has a share.
    pub fn has(&self, endpoint: Endpoint) -> bool {
        self.weights[endpoint as usize] > 0
    }

    /// Draws the endpoint of the next request.
    pub fn draw(&self, random: &mut Random) -> Endpoint {
        let mut at = random.below(u64::from(self.total()));
        for endpoint in Endpoint::ALL {
            let weight = u64::from(self.weights[endpoint as usize]);
            if at < weight {
                return endpoint;
            }
            at -= weight;
        }
        Endpoint::Fast
    }

    fn total(&self) -> u32 {
        self.weights.iter().sum()
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let mut weights = [0; KINDS];
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=SHARE"))?;
            let endpoint = Endpoint::named(name.trim()).ok_or_else(|| {
                let known = Endpoint::ALL.map(Endpoint::name).join(", ");
                format!("`{}` is not an endpoint; the endpoints are {known}", name.trim())
            })?;
            let weight = weight.trim().parse().ok().filter(|weight| *weight <= WEIGHT_MAX);
            weights[endpoint as usize] = weight
                .ok_or_else(|| format!("`{part}`: a share must be a whole number up to {WEIGHT_MAX}"))?;
        }
        if weights.iter().all(|weight| *weight == 0) {
            return Err("all shares are 0".into());
        }
        Ok(Mix { weights })
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = Endpoint::ALL.into_iter().filter(|endpoint| self.has(*endpoint));
        let parts: Vec<String> =
            used.map(|endpoint| format!("{}={}", endpoint.name(), self.weights[endpoint as usize])).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_and_written_alike() {
        let rows = [("fast=80,full=20", "fast=80,full=20"), (" full = 3 , account=0", "full=3")];
        for (text, shown) in rows {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), shown);
        }
        for (text, why) in [
            ("fast", "not NAME=SHARE"),
            ("slow=1", "`slow` is not an endpoint"),
            ("fast=-1", "whole number"),
            ("fast=9999999", "whole number"),
            ("fast=0", "all shares are 0"),
        ] {
            let error = text.parse::<Mix>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn draws_come_in_their_shares() {
        let mix: Mix = "fast=80,full=15,poll=5".parse().unwrap();
        let mut random = Random::new(7);
        let mut drawn = [0u32; KINDS];
        for _ in 0..100_000 {
            drawn[mix.draw(&mut random) as usize] += 1;
        }
        for (drawn, wanted) in drawn.into_iter().zip([0.80, 0.15, 0.0, 0.05, 0.0]) {
            let share = f64::from(drawn) / 100_000.0;
            assert!((share - wanted).abs() < 0.01, "{share} for {wanted}");
        }
    }
}
