//! The program that `cargo xtask measure verifiers` and `measure accuracy` build with the crate check-if-email-exists: it reads a list,
//! checks so many addresses at the same time, and prints a line for each.

use check_if_email_exists::smtp::verif_method::VerifMethod;
use check_if_email_exists::{CheckEmailInputBuilder, Reachable, check_email};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(30);
/// The longest time for an address: the crate reads endless replies for minutes.
const ADDRESS_LIMIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let list = std::fs::read_to_string(&arguments[1]).expect("a list");
    let places = Arc::new(Semaphore::new(arguments[2].parse().expect("a number of places")));
    let (name, sender) = ("probe.example".to_owned(), "postmaster@probe.example".to_owned());
    let method = VerifMethod::new_with_same_config_for_all(None, name, sender, 25, Some(LIMIT), 1);
    let mut checks = JoinSet::new();
    for address in list.lines().skip(1).map(str::to_owned) {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        let input = CheckEmailInputBuilder::default().to_email(address.clone()).verif_method(method.clone()).build();
        checks.spawn(async move {
            let input = input.expect("an input");
            let found = tokio::time::timeout(ADDRESS_LIMIT, check_email(&input)).await;
            let verdict = match found.map(|output| output.is_reachable) {
                Ok(Reachable::Safe) => "yes,safe",
                Ok(Reachable::Invalid) => "no,invalid",
                Ok(Reachable::Risky) => "unknown,risky",
                Ok(Reachable::Unknown) => "unknown,unknown",
                Err(_) => "unknown,no answer in time",
            };
            drop(place);
            println!("{address},{verdict}");
        });
    }
    while let Some(end) = checks.join_next().await {
        end.expect("no panic");
    }
}
