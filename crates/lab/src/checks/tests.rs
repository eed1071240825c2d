//! How findings make a result good, good with remarks or invalid.

use super::*;

#[test]
fn one_invalid_finding_among_remarks_makes_a_result_invalid() {
    let findings = [
        Finding::remark(Check::Cache, "the server's cache was not dropped"),
        Finding::invalid(Check::Ceiling, "it is 167 % of the wire"),
    ];
    let validity = Validity::of(&findings);
    assert!(!validity.is_usable());
    assert_eq!(
        validity.to_string(),
        "invalid because it is 167 % of the wire"
    );
}

#[test]
fn a_remark_made_of_every_block_is_said_once() {
    let remark = Finding::remark(Check::Cache, "x");
    assert_eq!(
        Validity::of([&remark, &remark]),
        Validity::Remarks {
            texts: vec!["x".into()]
        }
    );
    assert_eq!(Validity::of([]), Validity::Good);
}
