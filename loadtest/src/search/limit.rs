//! The cause of the highest rate, in one sentence: from the step that missed an objective at the lowest rate above it.

use super::Step;
use crate::cores::others_of_all;
use crate::run::{CLIENT_BUSY, MACHINE_BUSY};

/// The sentence that names the limit, for the highest rate that met the objectives and the largest rate of the search.
pub fn limit(steps: &[Step], highest: Option<f64>, most: f64) -> String {
    let above = |step: &&Step| !step.kept && highest.is_none_or(|highest| step.asked > highest);
    let missed = steps.iter().filter(above).min_by(|one, other| one.asked.total_cmp(&other.asked));
    let Some(step) = missed else {
        return match highest {
            Some(highest) if highest < most => "limit: unknown, because the search ended early".into(),
            Some(_) => format!("limit: none was reached up to {most} requests/s (--to)"),
            None => "limit: unknown, because no step is complete".into(),
        };
    };
    let names: Vec<&str> =
        step.objectives.iter().filter(|one| !one.met).map(|one| one.objective.as_str()).collect();
    let missed = match names[..] {
        [one] => format!("objective {one} is missed"),
        _ => format!("objectives {} are missed", names.join(", ")),
    };
    format!("limit: at {:.1}/s the {missed}; {}", step.asked, cause(step))
}

/// The first of these causes that holds. A client at its limit makes all other figures worthless.
fn cause(step: &Step) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let server = step.cores.map_or(String::new(), |cores| format!(", and the server uses {cores:.2} cores"));
    let others = step.cores_used.filter(|used| used.share() > MACHINE_BUSY && used.is_of_others());
    if let Some(used) = others.filter(|_| step.client_busy <= CLIENT_BUSY && step.limited == 0) {
        return others_of_all(used.others.unwrap_or(used.busy), used.all);
    }
    match step.machine_busy {
        _ if step.client_busy > CLIENT_BUSY => {
            format!("the load client is the limit: it is {} busy, so use more --threads", percent(step.client_busy))
        }
        _ if step.limited > 0 => "a limit of the account is reached: requests get 429".into(),
        Some(busy) if busy > MACHINE_BUSY && step.cores.is_some() => {
            format!("the CPU of this machine is the limit: it is {} busy{server}", percent(busy))
        }
        _ if step.unsent > 0 => {
            "the server answers too slowly for --connections: requests wait for a free connection".into()
        }
        _ if step.cores.is_none() => {
            "the cause is unknown without the CPU time of the server: set --pid or --metrics".into()
        }
        _ => "the server answers too slowly although its CPU has room: see its SMTP sessions, store queue and disk".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::CoresUsed;
    use crate::objective::Objective;
    use crate::run::tests::outcome;

    /// A full machine with two cores, of which the server uses this number.
    fn cores(server: f64) -> CoresUsed {
        let others = Some(1.96 - server - 0.1);
        CoresUsed { all: 2, busy: 1.96, server: Some(server), client: 0.1, mailnet: None, others }
    }

    #[test]
    fn the_cause_is_said_once() {
        let objective: Objective = "p50=40ms".parse().unwrap();
        let step = Step {
            asked: 200.0,
            cores: Some(1.5),
            machine_busy: Some(0.5),
            client_busy: 0.1,
            objectives: vec![objective.judge(&outcome())],
            ..Step::default()
        };
        let kept = Step { asked: 100.0, kept: true, ..step.clone() };
        let higher = Step { asked: 400.0, client_busy: 1.0, ..step.clone() };
        let said = |step: &Step, highest: Option<f64>| {
            limit(&[kept.clone(), higher.clone(), step.clone()], highest, 1e5)
        };
        let rows = [
            (step.clone(), "the server answers too slowly although its CPU has room"),
            (Step { unsent: 4, ..step.clone() }, "too slowly for --connections"),
            (Step { cores: None, ..step.clone() }, "set --pid or --metrics"),
            (
                Step { machine_busy: Some(0.97), unsent: 4, ..step.clone() },
                "97 % busy, and the server uses 1.50 cores",
            ),
            (
                Step {
                    machine_busy: Some(0.98),
                    cores_used: Some(cores(0.08)),
                    cores: Some(0.08),
                    ..step.clone()
                },
                "other programs used 1.78 of the 2 cores: end them and repeat",
            ),
            (
                Step {
                    machine_busy: Some(0.98),
                    cores_used: Some(cores(1.7)),
                    cores: Some(1.7),
                    ..step.clone()
                },
                "the CPU of this machine is the limit",
            ),
            (Step { limited: 1, ..step.clone() }, "requests get 429"),
            (Step { client_busy: 0.9, limited: 1, ..step.clone() }, "it is 90 % busy, so use more --threads"),
        ];
        for (step, part) in rows {
            let text = said(&step, Some(100.0));
            assert!(text.starts_with("limit: at 200.0/s the objective p50=40ms is missed; "), "{text}");
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(said(&step, Some(1e5)).contains("none was reached up to 100000 requests/s (--to)"));
        assert_eq!(said(&step, Some(400.0)), "limit: unknown, because the search ended early");
    }
}
