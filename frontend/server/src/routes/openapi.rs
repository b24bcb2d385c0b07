//! `GET /v1/openapi.json`: the description of the API, which is public.

use crate::call::Call;
use http_core::Refusal;
use http_core::Reply;

/// The lifetime in caches: long enough to save requests, short enough that an upgrade is soon visible. The answer has
/// no private data.
const KEPT: &str = "public, max-age=300";

/// Answers with the description that was rendered at the start of the server.
pub async fn show(call: Call) -> Result<Reply, Refusal> {
    let body = call.worker.shared.description.clone();
    Ok(Reply { status: 200, headers: Vec::new(), body }.header("cache-control", KEPT))
}

#[cfg(test)]
mod tests {
    use checks::auth::ApiKey;
    use engine::proto::address::Address;
    use store::{BatchId, KeyMode};

    /// Tests values of the description in formats that this crate knows.
    #[test]
    fn ids_and_addresses_of_the_examples_are_real() {
        let text = api::openapi::pretty(api::openapi::HERE).unwrap();
        let words = || text.split(['"', '`', ' ']);
        let ids: Vec<&str> = words().filter(|word| word.starts_with("bat_")).collect();
        assert!(ids.len() > 3 && ids.iter().all(|id| id.parse::<BatchId>().is_ok()), "{ids:?}");
        let address = |word: &&str| word.ends_with("@example.com");
        assert!(words().filter(address).count() > 3);
        assert!(words().filter(address).all(|word| Address::parse(word).is_ok()));
        for mode in [KeyMode::Live, KeyMode::Test] {
            let key = ApiKey::from_secret(mode, [0; 32]);
            assert!(words().any(|word| word == &key.reveal()[..8]));
        }
    }
}
