//! The version is a part of the path.

use crate::contract::world::shared;
use crate::harness::client::get;

#[test]
fn the_version_is_in_the_path_prefix() {
    let account = shared().account("free");
    for path in ["/account", "/v2/account", "/v0/account", "/V1/account", "/v1.0/account"] {
        account.call(get(path)).assert_refused(404, "not_found");
    }
    account.account();
}

#[test]
fn the_description_carries_version_1_0_0() {
    assert_eq!(shared().call(&get("/v1/openapi.json")).ok()["info"]["version"], "1.0.0");
}
